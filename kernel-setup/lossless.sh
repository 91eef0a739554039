#!/bin/bash
# lossless.sh [--check | --undo] [--root DIR] NETDEV [PRIORITY [DSCP]]: priority flow control (PFC) for
# RoCE on a network interface, now and at each boot: packets with this DSCP go in this priority, which
# the other end of the cable may pause, and no other is paused. By default priority 3 and DSCP 26, as
# roce.sh sets it; congestion notifications (DSCP 48) go in priority 6.
#
#   lossless.sh NETDEV [PRIORITY [DSCP]]          set it with dcb of iproute2; does nothing twice
#   lossless.sh --check NETDEV [PRIORITY [DSCP]]  say what is there and what is missing; status 1 if
#                                                 anything is
#   lossless.sh --undo NETDEV                     no pauses, and no mapping of DSCPs
#
# Both ends of every cable have to do the same: hosts, targets, and the ports of switches between them,
# which also have to mark packets (ECN) where queues grow. How cards react to the marks (DCQCN) is a
# setting of their own, on by default in most: mlxconfig ROCE_CC_PRIO_MASK_P1, bnxt's devlink, niccli.
# Whether it is needed at all: docs/network.md.
name=lossless.sh
. "$(dirname "$0")/common.sh"
arguments "$@"
if [ ${#rest[@]} -lt 1 ] || [ ${#rest[@]} -gt 3 ]; then usage; fi
netdev=${rest[0]}
priority=${rest[1]-3}
dscp=${rest[2]-26}
network_interface "$netdev"
[[ $priority =~ ^[0-7]$ ]] || wrong "PRIORITY is a number from 0 to 7, not $priority"
if ! [[ $dscp =~ ^[0-9]{1,2}$ ]] || [ "$dscp" -gt 63 ]; then wrong "DSCP is a number from 0 to 63, not $dscp"; fi

notifications=48:6
pfc="dcb pfc set dev $netdev prio-pfc all:off $priority:on"
app="dcb app replace dev $netdev dscp-prio $dscp:$priority $notifications"
service=nvmfd-lossless-$netdev.service
text=$(boot_service "Priority flow control for RoCE on $netdev" "/usr/bin/env $pfc" "/usr/bin/env $app")

check() {
    local said
    if live; then
        said=$(dcb pfc show dev "$netdev" prio-pfc 2>/dev/null || true)
        case " $said " in
        *" $priority:on "*) report yes "pauses for priority $priority" ;;
        *) report no "pauses for priority $priority ($pfc)" ;;
        esac
        said=$(dcb -N app show dev "$netdev" dscp-prio 2>/dev/null || true)
        case " $said " in
        *" $dscp:$priority "*) report yes "DSCP $dscp in priority $priority" ;;
        *) report no "DSCP $dscp in priority $priority ($app)" ;;
        esac
    fi
    report_written "$units/$service" "$text"
    report_enabled "$service"
}

up() {
    if live; then
        command -v dcb >/dev/null || stop "there is no dcb command; it comes with iproute2 5.11 and newer"
        $pfc || stop "$netdev has no priority flow control that the kernel can set: use its vendor's tool"
        $app || stop "$netdev maps no DSCPs that the kernel can set: use its vendor's tool"
    fi
    write "$units/$service" "$text"
    enable "$service"
}

undo() {
    [ -f "$root$units/$service" ] || return 0
    if live && [ -d "/sys/class/net/$netdev" ]; then
        dcb pfc set dev "$netdev" prio-pfc all:off || true
        dcb app flush dev "$netdev" dscp-prio || true
    fi
    disable "$service"
    remove "$units/$service"
    reload_systemd
}

run
