# verdict.sh: counts what the shell tests find; they read it with `.`, and end with verdicts.
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

# The last line, and the test's exit status.
verdicts() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
