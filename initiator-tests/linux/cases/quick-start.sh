#: what the quick start and the README say is to be typed works, word for word, within seconds: the daemon with its configuration, the host with its commands
#: providers verbs
#: targets nvmfd
#: seconds 120
NQN=nqn.2026-11.io.nvmfd:disk1
PATH=$WORK/bin:$PATH
cd "$OUT"
# Places of the pages, as they are here.
here() { sed "s#192.168.1.10#$TARGET_ADDR#; s#/srv/#$DISKS/#; s#\"10GiB\"#\"64MiB\"#"; }
# lines_of PROGRAM PAGE: the page's lines that begin with it, wherever it was built, without comments,
# and what sentences say is to be done at an address.
lines_of() {
    sed -n "s/ *#.*//; s#^\.build/release/##; /^$1 /p" "$2" | here
    grep -o "\`$1 [^\`]* -a [^\`]*\`" "$2" | tr -d '\`' | here || true
}

# follow PAGE HOST-COMMANDS: types what the page says, and tells how long that took.
follow() {
    local page=$1 began line
    began=$(cut -d' ' -f1 /proc/uptime)
    awk '/^```toml/ { inside = 1; next } /^```/ { inside = 0 } inside' "$page" | here >nvmfd.toml
    lines_of nvmfd "$page" >daemon.lines
    grep -q "^nvmfd serve" daemon.lines || fail "$page does not serve"
    while read -r line; do
        case $line in
        *" serve "*)
            say "$line"
            $line >served 2>&1 &
            served=$!
            until_true 20 grep -q "ready addresses=" served || fail "not ready: $(cat served)"
            ;;
        *) typed "$line" ;;
        esac
    done <daemon.lines

    lines_of nvme "$page" >host.lines
    expect "$2" "$(grep -c . host.lines)" "commands of the host in $page"
    while read -r line; do
        case $line in
        "nvme disconnect "*) tell_time "$page" "$began" ;;
        esac
        typed "$line"
        case $line in
        "nvme discover "*) expect_match "$NQN" "$(cat said)" "what is discovered" ;;
        "nvme connect "*) until_true 10 host_find || fail "the disk does not come" ;;
        "nvme list") expect_match "nvme[0-9]+n1" "$(cat said)" "nvme list" ;;
        esac
    done <host.lines
    if host_find; then
        cmp "$DEV" "$DISKS/own.img" || fail "the disk is not what the file is"
        tell_time "$page" "$began"
        host_disconnect
    fi
    kill $served
    wait $served || fail "the daemon ended with status $?"
}
typed() {
    say "$1"
    $1 >said 2>&1 || fail "$1: $(cat said)"
}
tell_time() {
    dd if="$DEV" of=/dev/null bs=1M count=16 iflag=direct status=none || fail "the disk cannot be read"
    say "${1##*/}: a disk on the host, and read, after $(awk "BEGIN { print $(cut -d' ' -f1 /proc/uptime) - $2 }") s"
}

follow "$WORK/docs/quick-start.md" 4
# With a file of one's own, as both pages offer.
random_file "$DISKS/own.img" 16
sed -i "s#/srv/disk1.img\", size = \"10GiB\"#$DISKS/own.img\"#" "$WORK/README.md"
follow "$WORK/README.md" 1
