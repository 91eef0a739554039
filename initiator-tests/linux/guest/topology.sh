# RDMA networks inside one guest. Each function leaves HOST_ADDR and TARGET_ADDR
# in the environment. MTU 4200 lets RoCE use its largest path MTU, 4096.

# Load modules; a kernel without module support has everything built in.
load() {
    [ "$MACHINE" = uml ] || modprobe -a "$@"
}

topology_up() {
    load ib_uverbs rdma_ucm nvme-fabrics nvme-rdma || return 1
    case $1 in
    loop) one_device ;;
    veth) load rdma_rxe veth && two_devices rxe ;;
    siw) two_devices siw ;;
    tap) load rdma_rxe && to_the_outside ;;
    routed) load rdma_rxe veth && through_a_router ;;
    *) echo "unknown topology $1" && return 1 ;;
    esac || return 1
    export HOST_ADDR TARGET_ADDR
    rdma link
}

# Both ends on the same soft-RoCE device over a dummy interface: the driver
# hands packets back to itself, nothing is on a wire.
one_device() {
    load rdma_rxe dummy || return 1
    ip link add fabric0 mtu 4200 type dummy &&
        ip address add 10.8.0.1/24 dev fabric0 &&
        ip link set fabric0 up &&
        rdma link add rxe0 type rxe netdev fabric0 || return 1
    HOST_ADDR=10.8.0.1 TARGET_ADDR=10.8.0.1
}

# An RDMA device of driver $1 at each end of a veth pair, both in the initial
# network namespace (the kernel's host and target know no other), and routing
# rules that make traffic between the two addresses take the wire:
# - both addresses are local, so the rule for the local table has to come after
#   rules that send locally produced packets for the other end out of the pair;
# - the connection manager checks a request by asking for the route back through
#   its device, with no input interface given, so each direction has a second
#   rule for that question.
two_devices() {
    ip link add host0 mtu 4200 type veth peer name target0 mtu 4200 || return 1
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    wire host0 10.9.0.1 10.9.0.2 101 && wire target0 10.9.0.2 10.9.0.1 102 || return 1
    in_order host0 && in_order target0
    ip rule add pref 30 lookup local && ip rule delete pref 0 || return 1
    rdma link add "$1"H type "$1" netdev host0 &&
        rdma link add "$1"T type "$1" netdev target0 || return 1
    HOST_ADDR=10.9.0.1 TARGET_ADDR=10.9.0.2
    # The first connect would otherwise wait for address resolution.
    ping -q -c 1 -W 5 -I "$HOST_ADDR" "$TARGET_ADDR"
}

# The machine's own interface to the outside, where the daemon is, as wire0. It
# has the largest MTU that both ends can do; User-Mode Linux could not change it.
outer_interface() {
    [ "$MACHINE" = uml ] || load virtio_net || return 1
    local name
    for name in vec0 eth0; do
        [ ! -e /sys/class/net/$name ] || break
    done
    ip link set $name name wire0
}

# A soft-RoCE device on the machine's interface, and the daemon outside.
to_the_outside() {
    outer_interface &&
        ip address add 10.8.0.2/24 dev wire0 &&
        ip link set wire0 up &&
        rdma link add rxe0 type rxe netdev wire0 || return 1
    HOST_ADDR=10.8.0.2 TARGET_ADDR=10.8.0.1
    ping -q -c 1 -W 5 "$TARGET_ADDR"
}

# The same with a router between, which is a network namespace of this machine:
# it has an interface for each direction that packets can leave by, so faults of
# the network can be played to both.
through_a_router() {
    local inside="ip netns exec router"
    outer_interface &&
        ip netns add router &&
        ip link add host0 mtu 9000 type veth peer name edge0 mtu 9000 &&
        ip link set edge0 netns router &&
        ip link set wire0 netns router &&
        ip address add 10.8.1.2/24 dev host0 &&
        $inside ip address add 10.8.1.1/24 dev edge0 &&
        $inside ip address add 10.8.0.2/24 dev wire0 &&
        $inside ip link set edge0 up &&
        $inside ip link set wire0 up &&
        $inside sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' &&
        ip link set host0 up &&
        ip route add 10.8.0.0/24 via 10.8.1.1 &&
        rdma link add rxe0 type rxe netdev host0 || return 1
    HOST_ADDR=10.8.1.2 TARGET_ADDR=10.8.0.1
    ping -q -c 1 -W 5 "$TARGET_ADDR"
}

# in_order DEVICE: packets of one flow stay in order.
# A veth hands each packet to the processor that sent it, so what a queue pair
# sends from two of them is reordered. No real link does that to a flow, and the
# 6.1 kernel's soft-RoCE host does not survive it: going back after a gap it
# registers memory a second time ("not free") and the queue hangs. Steering by
# flow gives each flow one processor.
in_order() {
    local queue
    for queue in /sys/class/net/"$1"/queues/rx-*; do
        echo 3 >"$queue/rps_cpus"
    done 2>/dev/null || true
}

# wire DEVICE OWN PEER TABLE
wire() {
    local setting conf=/proc/sys/net/ipv4/conf/$1
    for setting in rp_filter=0 accept_local=1 arp_ignore=1 arp_announce=2; do
        echo "${setting#*=}" >"$conf/${setting%=*}"
    done
    ip link set "$1" up &&
        ip address add "$2/32" dev "$1" &&
        ip route add "$3" dev "$1" src "$2" table "$4" &&
        ip rule add pref "$((10 + $4 - 100))" iif lo to "$3" lookup "$4" &&
        ip rule add pref "$((20 + $4 - 100))" oif "$1" to "$3" lookup "$4"
}
