#: what the quick start says is to be typed works, word for word: the daemon with its configuration, the host with its commands
#: providers verbs
#: targets nvmfd
#: seconds 120
NQN=nqn.2026-11.io.nvmfd:disk1
page=$WORK/docs/quick-start.md
# Places of the page, as they are here.
here() { sed "s#192.168.1.10#$TARGET_ADDR#; s#/srv/#$DISKS/#; s#\"10GiB\"#\"64MiB\"#"; }
# lines_of PROGRAM: the page's lines that begin with it, without comments.
lines_of() { sed -n "s/ *#.*//; /^$1 /p" "$page" | here; }
cd "$OUT"
awk '/^```toml/ { inside = 1; next } /^```/ { inside = 0 } inside' "$page" | here >nvmfd.toml
PATH=$WORK/bin:$PATH

lines_of nvmfd >daemon.lines
grep -q "^nvmfd serve" daemon.lines || fail "the page does not serve"
while read -r line; do
    say "$line"
    case $line in
    *" serve "*)
        $line >served 2>&1 &
        served=$!
        until_true 20 grep -q "ready addresses=" served || fail "not ready: $(cat served)"
        ;;
    *) $line >said 2>&1 || fail "$line: $(cat said)" ;;
    esac
done <daemon.lines

lines_of nvme >host.lines
while read -r line; do
    say "$line"
    case $line in
    "nvme list")
        until_true 10 host_find || fail "the disk does not come"
        expect_match "nvme[0-9]+n1" "$(nvme list)" "nvme list"
        ;;
    *) $line >said 2>&1 || fail "$line: $(cat said)" ;;
    esac
    case $line in
    "nvme discover "*) expect_match "nqn.2026-11.io.nvmfd:disk1" "$(cat said)" "what is discovered" ;;
    esac
done <host.lines
expect 4 "$(grep -c . host.lines)" "commands of the host"
kill $served
wait $served || fail "the daemon ended with status $?"
