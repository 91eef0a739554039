# Words that scripts on both sides of the wire use.

# Where programs are that take the place of the system's: an nvme, when one was asked for.
PATH=$WORK/bin:$PATH

# Log a line with the uptime of the machine that says it.
say() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }

# End the case as failed.
fail() {
    echo "FAILED: $*"
    exit 1
}

# End the case as not applicable here.
skip() {
    echo "$*"
    exit 77
}

# until_true SECONDS COMMAND...: try until it succeeds or time is over.
until_true() {
    local left=$(($1 * 10))
    shift
    until "$@" 2>/dev/null; do
        ((left-- > 0)) || return 1
        sleep 0.1
    done
}

# expect WANTED GOT WHAT
expect() { [ "$1" = "$2" ] || fail "$3: expected '$1', got '$2'"; }

# expect_match PATTERN TEXT WHAT
expect_match() { grep -qE -- "$1" <<<"$2" || fail "$3: nothing like '$1' in: $2"; }

# A file of random data: random_file PATH MIB
random_file() { dd if=/dev/urandom of="$1" bs=1M count="$2" status=none; }
