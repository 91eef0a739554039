# Shared by soft-roce.sh and siw.sh: an RDMA device that the kernel makes of a network interface. The
# script sets `kind` (what rdma link calls it), `modules` and `label`, and calls arguments before.
# shellcheck shell=bash disable=SC2154

[ ${#rest[@]} = 1 ] || usage
netdev=${rest[0]}
network_interface "$netdev"
[ "$netdev" != lo ] || wrong "the loopback interface has no address that RDMA connections can use; take another"
# The name of a device has at most 63 bytes, and an interface's 15: always fits.
device=${kind}_$netdev
modules_file=/etc/modules-load.d/nvmfd-$label.conf
limits_file=/etc/security/limits.d/nvmfd-$label.conf
template=nvmfd-$label@.service
service=nvmfd-$label@$netdev.service

modules_text=$(printf '%s\n' "${modules[@]}")
# Memory that an RDMA device may touch is locked; every buffer counts.
limits_text='* soft memlock unlimited
* hard memlock unlimited'
unit_text="[Unit]
Description=RDMA device ($kind) on %i
BindsTo=sys-subsystem-net-devices-%i.device
After=sys-subsystem-net-devices-%i.device network-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'rdma link show ${kind}_%i/1 >/dev/null 2>&1 || exec rdma link add ${kind}_%i type $kind netdev %i'
ExecStop=rdma link delete ${kind}_%i

[Install]
WantedBy=multi-user.target"

# The RDMA device on this interface, whatever it is called.
existing() {
    local dev
    for dev in /sys/class/infiniband/*; do
        [ -e "$dev/parent" ] || continue
        [ "$(cat "$dev/parent")" != "$netdev" ] || { echo "${dev##*/}" && return; }
    done
    # siw has no such file; its devices go by the name that was given here.
    [ ! -e "/sys/class/infiniband/$device" ] || echo "$device"
}

check() {
    local found
    report_modules "${modules[@]}"
    if live; then
        found=$(existing)
        if [ -n "$found" ]; then
            report yes "RDMA device $found on $netdev"
        else
            report no "a $kind device on $netdev"
        fi
        if [ -c /dev/infiniband/rdma_cm ]; then
            report yes "/dev/infiniband/rdma_cm"
        else
            report no "/dev/infiniband/rdma_cm"
        fi
    fi
    report_written "$modules_file" "$modules_text"
    report_written "$limits_file" "$limits_text"
    report_written "$units/$template" "$unit_text"
    report_enabled "$service"
    if live; then note "locked memory of this shell: $(ulimit -l) KiB"; fi
}

up() {
    load "${modules[@]}"
    # Newer kernels ask for the checksum by name and do not load it themselves.
    if live; then modprobe -q crc32_generic || true; fi
    if live && [ -z "$(existing)" ]; then
        rdma link add "$device" type "$kind" netdev "$netdev" ||
            stop "cannot make the RDMA device; is iproute2 with the rdma command installed?"
    fi
    write "$modules_file" "$modules_text"
    write "$limits_file" "$limits_text"
    write "$units/$template" "$unit_text"
    enable "$service" "$template"
}

undo() {
    local link
    [ -L "$root$(wanted "$service")" ] || return 0
    disable "$service"
    if live && [ "$(existing)" = "$device" ]; then rdma link delete "$device"; fi
    # Shared with the devices of other interfaces, if there are any.
    for link in "$root$(wanted "nvmfd-$label@")"*; do
        [ ! -L "$link" ] || return 0
    done
    remove "$modules_file"
    remove "$limits_file"
    remove "$units/$template"
    reload_systemd
}
