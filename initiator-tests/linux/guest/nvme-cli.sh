# Words for cases that go through nvme-cli's commands. Each command and the line
# that answers it becomes a row of a table that is kept: $OUT/keep/nvme-cli.md.
# A wrong answer is a row too; at its end the case asks whether all were right.

mkdir -p "$OUT/keep"
printf '| nvme | Answer |\n|---|---|\n' >"$OUT/keep/nvme-cli.md"
first_wrong=

# row ANSWER COMMAND...
row() {
    local answer
    answer=$(tr -s ' \t\n' ' ' <<<"$1" | sed 's/|/\\|/g; s/^ //; s/ $//')
    shift
    echo "| $* | $answer |" | tee -a "$OUT/keep/nvme-cli.md"
}
wrong() {
    first_wrong=${first_wrong:-$*}
    row "$1; wrong: $(answer | head -c 600)" "${@:2}"
}
all_right() { [ -z "$first_wrong" ] || fail "nvme-cli.md has wrong answers, first: $first_wrong"; }

# The text of the last answer: fields can be padded with NULs.
answer() { tr -d '\0' <"$OUT/answer"; }
answered() { answer | grep -E -m 1 -- "$1" || true; }

# ask PATTERN COMMAND...: it succeeds, and a line of the answer is like PATTERN.
ask() {
    local pattern=$1
    shift
    if nvme "$@" >"$OUT/answer" 2>&1 </dev/null && grep -qE -- "$pattern" <<<"$(answer)"; then
        row "$(answered "$pattern")" "$@"
    else
        wrong "not $pattern" "$@"
    fi
}

# also PATTERN...: further lines of the last answer, each a row of its own.
also() {
    local pattern
    for pattern in "$@"; do
        if grep -qE -- "$pattern" <<<"$(answer)"; then
            row "$(answered "$pattern")" ...
        else
            wrong "not $pattern" ...
        fi
    done
}

# Status codes, type and code.
INVALID_OPCODE=001 INVALID_FIELD=002 BEYOND_THE_END=080
INVALID_LOG_PAGE=109 NOT_SAVEABLE=10d COMPARE_FAILURE=285

# deny STATUS COMMAND...: it fails with this status, whatever its More and Do Not Retry.
deny() {
    local wanted=$((16#$1)) said
    shift
    if nvme "$@" >"$OUT/answer" 2>&1 </dev/null; then
        wrong "success" "$@"
        return
    fi
    said=$(answer | sed -n 's/.*(0x\([0-9a-f]*\)).*/\1/p' | head -n 1)
    if [ $((16#${said:-ffff} & 0x7ff)) = $wanted ]; then
        row "$(answered '\(0x')" "$@"
    else
        wrong "not status $(printf %03x $wanted)" "$@"
    fi
}

# value FIELD: what stands behind its name in the last answer.
value() { answer | sed -n "s/^ *$1[[:space:]]*:[[:space:]]*//p" | head -n 1 | tr -d ' '; }
