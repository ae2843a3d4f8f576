# verdict.sh: counts the results of shell tests, which read it with `.` and call verdicts at the
# end.
passed=0
failed=0
skipped=0

verdict() { # name, exit status
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}

# Prints the last line and returns the test's exit status.
verdicts() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
