#: nvmfd doctor names what is broken in seven machines, and the commands that it gives mend all but two of them
#: providers verbs
#: targets nvmfd
#: seconds 120
load dummy rdma_rxe
address=10.77.0.1
ip link add doctor0 mtu 4200 type dummy
ip address add $address/24 dev doctor0
ip link set doctor0 up
rdma link add rxe_doctor0 type rxe netdev doctor0
disk_make file:64
mount_of_disk=$(dirname "$disk_path")

configuration() {
    cat <<CONFIGURATION
[[listener]]
address = "$address"
provider = "$1"
[[subsystem]]
nqn = "nqn.2026-11.io.nvmfd:doctor"
allow_any_host = true
namespace = [{ path = "$disk_path" }]
[tuning]
data_cores = 1
memory = "8MiB"
control_memory = "8MiB"
CONFIGURATION
}
configuration verbs >"$OUT/verbs.toml"
configuration soft >"$OUT/soft.toml"

# doctor PROVIDER [PREFIX...]: what it says, into $OUT/said; its status is left in $status.
doctor() {
    local config=$OUT/$1.toml
    shift
    status=0
    "$@" "$WORK/bin/nvmfd" doctor --config "$config" >"$OUT/said" || status=$?
}
# Each fault with its command, as "ABOUT: WORDS -> COMMAND".
faults() {
    awk '
        function flush() { if (line != "") print line; line = "" }
        /^fault / { flush(); about = $2; $1 = $2 = ""; line = about ":" substr($0, 2); next }
        /^ +-> / { if (line != "") { sub(/^ +/, " "); line = line $0 } next }
        { flush() }
        END { flush() }
    ' "$OUT/said"
}
is_well() {
    doctor verbs
    [ $status = 0 ]
}
well() { until_true 10 is_well || fail "$1: $(faults)"; }
# broken WHAT PATTERN: something is at fault, and one fault is like this.
broken() {
    say "$1: $(faults)"
    expect 1 $status "status of the doctor: $1"
    expect_match "$2" "$(faults)" "$1"
}
# mend ABOUT: runs the command of the first fault about that.
mend() {
    local command
    command=$(faults | sed -n "s/^$1: .* -> //p" | head -n 1)
    say "running: $command"
    bash -c "$command"
}

"$WORK/bin/nvmfd" doctor --config "$OUT/verbs.toml"
well "a machine that is well"

ip link set doctor0 down
doctor verbs
broken "link down" "^link: doctor0 is down: .* -> ip link set doctor0 up$"
mend link
well "mended: link down"

ip link set doctor0 mtu 300
doctor verbs
broken "wrong MTU" "^mtu: doctor0 has an MTU of 300: .* -> ip link set doctor0 mtu 1500$"
mend mtu
well "mended: wrong MTU"

rdma link delete rxe_doctor0
doctor verbs
broken "no RDMA device" "^rdma: no RDMA device has the address of $address:4420, on doctor0 -> rdma link add"
mend rdma
well "mended: no RDMA device"

# Where modules are built in there is none to take away.
if [ "$MACHINE" = qemu ]; then
    modprobe -r rdma_ucm
    doctor verbs
    broken "no module" "^rdma: .* -> modprobe rdma_ucm$"
    mend rdma
    well "mended: no module"
fi

mount -o remount,ro "$mount_of_disk"
doctor verbs
broken "disk read-only" "^disk: .* read-only.* -> mount -o remount,rw $mount_of_disk$"
mend disk
well "mended: disk read-only"

# Root may lock what it likes, unless the capability is taken away.
ulimit -l 1024
doctor verbs setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock --
broken "low memlock" "^memlock: 1 MiB may be locked, and 32 MiB are needed: .* -> ulimit -l unlimited"

doctor soft
broken "port taken" "^port: UDP port 4791 of $address belongs to the kernel's soft-RoCE.* -> rdma link delete "

rdma link delete rxe_doctor0
ip link delete doctor0
