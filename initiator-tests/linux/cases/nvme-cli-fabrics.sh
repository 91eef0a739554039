#: nvme-cli discovers, connects all, resets, scans again and disconnects, under odd host names too
#: targets nvmfd
#: seconds 120
. "$WORK/guest/nvme-cli.sh"
SECOND=nqn.2026-11.io.nvmfd:second
target_up -x "[[subsystem]]
nqn = \"$SECOND\"
allow_any_host = true
namespace = [{ ram = \"16MiB\" }]" loop:64
at=(-t rdma -a "$TARGET_ADDR" -s 4420 -w "$HOST_ADDR")
controllers() { cat /sys/class/nvme-fabrics/ctl/nvme*/subsysnqn /sys/class/nvme/nvme*/subsysnqn 2>/dev/null | sort -u | grep -c io.nvmfd || true; }

ask "Discovery Log Number of Records [23]," discover "${at[@]}"
also "subnqn: +$NQN$" "subnqn: +$SECOND$" "treq: +not" "rdma_qptype: connected" "rdma_cms: +rdma-cm" "portid: +[0-9]"
ask "" connect-all "${at[@]}" --nr-io-queues 1
until_true 10 host_find || fail "connect-all brought no disk"
expect 2 "$(controllers)" "subsystems connected by connect-all"
C=/dev/$CTRL

ask "" reset "$C"
until_true 20 host_is live || fail "not live after reset: $(host_state)"
# Where a controller has none, the kernel does not even try.
if nvme subsystem-reset "$C" >"$OUT/answer" 2>&1; then fail "subsystem-reset succeeded"; fi
row "$(answer | head -n 1)" subsystem-reset "$C"
expect_match "[Nn]ot supported|Inappropriate ioctl" "$(answer)" "subsystem-reset"
until_true 20 host_is live || fail "not live after subsystem-reset: $(host_state)"
ask "" ns-rescan "$C"
until_true 5 host_find
ask "disconnected 1 controller" disconnect -n "$SECOND"
ask "" disconnect -d "$CTRL"
expect 0 "$(controllers)" "subsystems after disconnect"
ask "" connect-all "${at[@]}" --nr-io-queues 1
until_true 10 host_find || fail "the second connect-all brought no disk"
ask "" disconnect-all
expect 0 "$(controllers)" "subsystems after disconnect-all"

# connect NAME-OF-HOST IDENTIFIER: a host of this name gets in, and the daemon knows it as such.
as_host() {
    ask "" connect "${at[@]}" -n "$NQN" --nr-io-queues 1 -q "$1" -I "$2"
    until_true 10 host_find || fail "host $1 $2 has no disk"
    expect "$1" "$(cat "/sys/class/nvme/$CTRL/hostnqn")" "name of the host"
    target_tell list connections --json | grep -qF "\"$1\"" || fail "the daemon does not know the host as $1"
    host_disconnect
}
ask "^nqn\.2014-08\.org\.nvmexpress:uuid:[0-9a-f-]{36}$" gen-hostnqn
generated=$(answer)
ask "^nqn\.2014-08\.org\.nvmexpress:uuid:" show-hostnqn
as_host "$generated" "${generated##*uuid:}"
# The identifier of another one, and of none.
as_host "$generated" 11111111-2222-4333-8444-555555555555
as_host nqn.2014-08.org.nvmexpress:uuid:01234567-89AB-CDEF-0123-456789ABCDEF ffffffff-ffff-ffff-ffff-ffffffffffff
# The longest name that Linux takes: 222 bytes.
as_host "nqn.2026-11.io.nvmfd:$(printf 'x%.0s' {1..201})" 22222222-2222-4333-8444-555555555555
as_host "nqn.2026-11.io.nvmfd:with:colons-and.dots_and+more@there" 33333333-2222-4333-8444-555555555555
all_right
