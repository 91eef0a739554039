#!/bin/bash
# soft-roce.sh [--check | --undo] [NETDEV]: a soft-RoCE (rxe) RDMA device on a
# network interface, and what a daemon needs to use it without being root.
#
#   soft-roce.sh NETDEV          load modules, make the RDMA device rxe_NETDEV,
#                                keep both over a reboot, raise the limit of
#                                locked memory; does nothing twice
#   soft-roce.sh --check NETDEV  say what is there and what is missing; status 1
#                                if anything is; changes nothing
#   soft-roce.sh --undo NETDEV   take all of it back
set -euo pipefail

modules=(rdma_rxe ib_uverbs rdma_ucm)
modules_file=/etc/modules-load.d/nvmfd-soft-roce.conf
limits_file=/etc/security/limits.d/nvmfd-memlock.conf
unit=nvmfd-soft-roce@.service
unit_file=/etc/systemd/system/$unit

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
    exit 2
}
stop() {
    echo "soft-roce.sh: $*" >&2
    exit 1
}

mode=up
case ${1-} in
--check | --undo) mode=${1#--} && shift ;;
--help | -h) usage ;;
esac
[ $# = 1 ] || usage
netdev=$1
device=rxe_$netdev
# The name of a device has at most 63 bytes, and an interface's 15: always fits.
[ -d "/sys/class/net/$netdev" ] || stop "there is no network interface $netdev; see: ip link"
[ "$netdev" != lo ] || stop "the loopback interface has no address that RDMA connections can use; take another"

# The RDMA device on this interface, whatever it is called.
existing() {
    local dev
    for dev in /sys/class/infiniband/*; do
        [ -e "$dev/parent" ] || continue
        [ "$(cat "$dev/parent")" != "$netdev" ] || { echo "${dev##*/}" && return; }
    done
}

check() {
    local missing=0 module found
    report() { if [ "$1" = yes ]; then echo "ok       $2"; else echo "missing  $2" && missing=1; fi; }
    for module in "${modules[@]}"; do
        [ -d "/sys/module/$module" ] && report yes "module $module" || report no "module $module (modprobe $module)"
    done
    found=$(existing)
    [ -n "$found" ] && report yes "RDMA device $found on $netdev" || report no "an rxe device on $netdev"
    [ -c /dev/infiniband/rdma_cm ] && report yes "/dev/infiniband/rdma_cm" || report no "/dev/infiniband/rdma_cm"
    [ -f $modules_file ] && report yes "$modules_file" || report no "$modules_file"
    [ -f $limits_file ] && report yes "$limits_file" || report no "$limits_file"
    if [ -d /run/systemd/system ]; then
        systemctl -q is-enabled "nvmfd-soft-roce@$netdev.service" 2>/dev/null &&
            report yes "the device comes back after a reboot" || report no "a service that makes the device after a reboot"
    fi
    echo "note     locked memory of this shell: $(ulimit -l) KiB"
    return $missing
}

up() {
    local module
    for module in "${modules[@]}"; do
        modprobe "$module" || stop "this kernel has no module $module; on Debian it is in linux-image-amd64, not in the cloud kernels"
    done
    # Newer kernels ask for the checksum by name and do not load it themselves.
    modprobe -q crc32_generic || true
    if [ -z "$(existing)" ]; then
        rdma link add "$device" type rxe netdev "$netdev" || stop "cannot make the RDMA device; is iproute2 with the rdma command installed?"
    fi
    printf '%s\n' "${modules[@]}" >$modules_file
    # Memory that an RDMA device may touch is locked; every buffer counts.
    printf '* soft memlock unlimited\n* hard memlock unlimited\n' >$limits_file
    if [ -d /run/systemd/system ]; then
        cat >$unit_file <<UNIT
[Unit]
Description=Soft-RoCE device on %i
BindsTo=sys-subsystem-net-devices-%i.device
After=sys-subsystem-net-devices-%i.device network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'rdma link show rxe_%i/1 >/dev/null 2>&1 || exec rdma link add rxe_%i type rxe netdev %i'
ExecStop=rdma link delete rxe_%i

[Install]
WantedBy=multi-user.target
UNIT
        systemctl daemon-reload
        systemctl -q enable "nvmfd-soft-roce@$netdev.service"
    fi
    check
}

undo() {
    if [ -d /run/systemd/system ]; then
        systemctl -q disable "nvmfd-soft-roce@$netdev.service" 2>/dev/null || true
    fi
    if [ "$(existing)" = "$device" ]; then
        rdma link delete "$device"
    fi
    # Shared with the devices of other interfaces, if there are any.
    if ! ls -d /sys/class/infiniband/rxe_* >/dev/null 2>&1; then
        rm -f $modules_file $limits_file $unit_file
        [ ! -d /run/systemd/system ] || systemctl daemon-reload
    fi
    echo "undone on $netdev"
}

if [ $mode != check ]; then
    [ "$(id -u)" = 0 ] || stop "only root may do this"
fi
$mode
