#!/bin/sh
# same_bits.sh: runs the same cases with two builds of the program and compares what they write byte
# by byte, for changes that must not change a result. The last line says `N same, N differ`; exit status
# 1 when anything differs, or ends otherwise than well.
#
#   same_bits.sh OLD_PROGRAM NEW_PROGRAM [WORD]     WORD: only cases that match it
#
# Models are small, random or tests/data's: some seconds in all.
set -eu
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: same_bits.sh OLD_PROGRAM NEW_PROGRAM [WORD]" >&2
    exit 2
fi
old=$(realpath "$1")
new=$(realpath "$2")
word=${3:-}
cd "$(dirname "$0")/../data"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export FOVEA_WISDOM= FOVEA_RIGOR=estimate

# Uses each bidirectional mechanism in turn as the first one, twelve blocks at a time.
rotations() { # the first attention, the others
    list=$1
    block=1
    shift
    for attention; do
        list=$list+$attention@$block
        block=$((block + 1))
    done
    echo "$list"
}
first=$(rotations linear:elu1 linear:relu linear:exp linear:softplus linear:softmax mala mala:relu mala:exp \
    nala focused softmax pola)
second=$(rotations softmax nala-paper mala-paper mala-paper:relu linear:exp mala:exp nala linear:relu \
    linear:softmax pola focused softmax)

cases() {
    vit='run synthetic:vit-ti16 picture_wide.ppm'
    # Cases: sizes, resizing, schedules, workers and memory.
    cat <<END
$vit --size 64 --attention softmax
$vit --size 112x80 --attention linear --threads 1
$vit --size 112x80 --attention linear --threads 2
$vit --size 112x80 --attention linear --threads 2 --schedule stepwise
$vit --size 112x80 --attention linear --threads 2 --schedule streamed --chunk 24
$vit --size 336 --attention linear:exp --threads 2 --memory-limit 8
$vit --size 336 --attention softmax --schedule streamed --threads 2
$vit --size 48x176 --attention $first --hidden --threads 1
$vit --size 48x176 --attention $first --hidden --threads 2 --schedule streamed
$vit --size 80 --attention $second --hidden
$vit --size 80 --attention softmax+linear@4-10+mala@11
END
    # Families.
    for model in deit-ti dinov2-s-reg mavit-t nalaformer-xt; do
        echo "run synthetic:$model picture_tall.ppm --hidden --size 224x160"
    done
    for model in pola-pvt-t pola-swin-t; do
        echo "run synthetic:$model picture_tall.ppm --hidden --size 224"
    done
    echo "run synthetic:mavit-t picture_wide.ppm --size 96x224 --threads 2 --schedule streamed"
    echo "run synthetic:nalaformer-xt picture_wide.ppm --size 224x96 --schedule stepwise"
    echo "run golden/models/vit-01 picture_wide.ppm --hidden"
    for model in clip-vision-02 dinov2-03 dinov2-with-registers-03 siglip-02; do
        echo "run golden/models/$model golden/models/$model/io.safetensors --hidden"
        echo "run golden/models/$model picture_wide.ppm picture_wide.ppm --attention mala"
    done
    # Cases: storage types and instruction sets.
    for dtype in f16 bf16; do
        echo "$vit --size 112x80 --attention linear --dtype $dtype --threads 2"
        echo "run synthetic:pola-pvt-t picture_tall.ppm --size 224 --dtype $dtype"
        echo "op golden/ops/softmax-03.safetensors --attention linear --dtype $dtype"
        echo "op golden/ops/linear-32.safetensors --dtype $dtype"
    done
    for isa in scalar avx2 avx512 neon neon-fp16 neon-dot; do
        if "$old" op golden/ops/linear-01.safetensors --isa $isa -o "$tmp/isa" 2>"$tmp/said"; then
            echo "$vit --size 48 --attention $first --isa $isa"
            echo "run synthetic:pola-swin-t picture_tall.ppm --size 224 --isa $isa"
        fi
    done
    # Cases: operations, those with a state in each form, and one case with every mechanism.
    for file in golden/ops/*.safetensors; do
        echo "op $file"
        case $file in
        *delta-rule* | */gla* | *sla-gla* | *retention* | *linear-32* | *linear-40* | *sla-linear-13*)
            echo "op $file --form recurrent"
            echo "op $file --form chunk --chunk 8"
            ;;
        esac
    done
    for attention in linear:relu linear:exp linear:softplus linear:softmax mala mala:relu mala:exp nala nala-paper focused; do
        echo "op golden/ops/linear-15.safetensors --attention $attention --threads 2"
    done
    echo 'op golden/ops/linear-11.safetensors --attention linear:identity'
    # Cases: models after several training steps. Only options that both programs know are used.
    steps='--data . --size 32 --batch 2 --steps 3 --seed 3 --lr 1e-3 --warmup 0'
    echo "adapt golden/models/vit-01 --stage 1 --attention linear $steps --threads 1"
    echo "adapt golden/models/dinov2-03 --stage 2 --attention mala $steps --threads 2"
}

# Runs one program, which writes a file, or a folder that contains the expected file.
result() { # program, name of what is compared, arguments...
    program=$1
    to=$tmp/$2
    shift 2
    out=$to.safetensors
    wanted=$out
    if [ "$1" = run ]; then
        set -- "$@" --compute f32 # what older programs have without the option
    fi
    if [ "$1" = adapt ]; then
        out=$to.folder
        wanted=$out/model.safetensors
        if "$program" adapt --help | grep -q -e --loss; then
            set -- "$@" --loss squared # what programs without the option take
        fi
    fi
    code=0
    "$program" "$@" --device cpu -o "$out" >"$to.said" 2>&1 || code=$?
    [ "$code" = 0 ] && mv "$wanted" "$to"
    echo "exit $code: $(tail -n 1 "$to.said")" >"$to.end"
}

same=0
differ=0
cases | grep -e "$word" >"$tmp/cases"
while read -r line; do
    # shellcheck disable=SC2086
    result "$old" old $line &
    # shellcheck disable=SC2086
    result "$new" new $line
    wait
    if cmp "$tmp/old" "$tmp/new" >"$tmp/compared" 2>&1; then
        same=$((same + 1))
    else
        differ=$((differ + 1))
        printf 'fovea %s\n    old: %s\n    new: %s\n    %s\n' "$line" "$(cat "$tmp/old.end")" \
            "$(cat "$tmp/new.end")" "$(cat "$tmp/compared")"
    fi
    rm -rf "$tmp"/old* "$tmp"/new*
done <"$tmp/cases"
echo "$same same, $differ differ"
[ "$differ" = 0 ] && [ "$same" != 0 ]
