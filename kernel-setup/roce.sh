#!/bin/bash
# roce.sh [--check | --undo] [--root DIR] DEVICE [TOS]: RoCE v2, and the type of service with which
# connections of an RDMA device are sent, now and at each boot. TOS is the whole byte: the DSCP in its
# upper six bits, and in the lower two what says to switches that they may mark instead of drop (ECN).
# By default 106: DSCP 26 with ECN, which most guides for RoCE give to storage.
#
#   roce.sh DEVICE [TOS]          set it; does nothing twice
#   roce.sh --check DEVICE [TOS]  say what is there and what is missing; status 1 if anything is
#   roce.sh --undo DEVICE         no type of service; RoCE v2 stays, which is the kernel's default
#
# It is the kernel's setting that the tools of some vendors call cma_roce_mode and cma_roce_tos. It
# holds for connections that are made through the kernel's connection manager, by nvmfd and by hosts.
# nvmfd's own endpoint has traffic_class in [tuning].
name=roce.sh
. "$(dirname "$0")/common.sh"
arguments "$@"
if [ ${#rest[@]} != 1 ] && [ ${#rest[@]} != 2 ]; then usage; fi
device=${rest[0]}
tos=${rest[1]-106}
[[ $device =~ ^[A-Za-z0-9_.-]{1,63}$ ]] || wrong "no RDMA device is called $device"
if ! [[ $tos =~ ^[0-9]{1,3}$ ]] || [ "$tos" -gt 255 ]; then wrong "TOS is a number from 0 to 255, not $tos"; fi
if live && [ "$mode" != undo ] && [ ! -d "/sys/class/infiniband/$device" ]; then
    wrong "there is no RDMA device $device; see: rdma link"
fi

config=/sys/kernel/config/rdma_cm/$device
service=nvmfd-roce-$device.service
set_all="modprobe rdma_cm; mkdir -p $config && for port in $config/ports/*; do echo RoCE v2 >\$port/default_roce_mode; echo $tos >\$port/default_roce_tos; done"
text=$(boot_service "RoCE v2 with type of service $tos on $device" "/bin/sh -c '${set_all//\$/\$\$}'")

check() {
    local port
    if live; then
        # Without the folder nothing was set, and it is not made for a look.
        [ -d "$config" ] || report no "type of service $tos on $device"
        for port in "$config"/ports/*; do
            [ -d "$port" ] || continue
            if [ "$(cat "$port/default_roce_mode")" = "RoCE v2" ]; then
                report yes "RoCE v2 on port ${port##*/}"
            else
                report no "RoCE v2 on port ${port##*/}"
            fi
            if [ "$(cat "$port/default_roce_tos")" = "$tos" ]; then
                report yes "type of service $tos on port ${port##*/}"
            else
                report no "type of service $tos on port ${port##*/}: it is $(cat "$port/default_roce_tos")"
            fi
        done
    fi
    report_written "$units/$service" "$text"
    report_enabled "$service"
}

up() {
    if live; then sh -c "$set_all" || stop "cannot set it; is configfs mounted at /sys/kernel/config?"; fi
    write "$units/$service" "$text"
    enable "$service"
}

undo() {
    local port
    [ -f "$root$units/$service" ] || return 0
    if live && [ -d "$config" ]; then
        for port in "$config"/ports/*; do echo 0 >"$port/default_roce_tos"; done
        rmdir "$config" 2>/dev/null || true
    fi
    disable "$service"
    remove "$units/$service"
    reload_systemd
}

run
