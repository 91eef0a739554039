#!/bin/bash
# initiator.sh [--check | --undo] [--root DIR] ADDRESS...: a Linux host that connects at each boot to
# everything that the discovery services at these addresses offer it (IP, or IP:PORT; 4420 if not said).
#
#   initiator.sh ADDRESS...          module, multipath over several addresses, the service
#                                    nvmfd-connect; does nothing twice
#   initiator.sh --check ADDRESS...  say what is there and what is missing; status 1 if anything is
#   initiator.sh --undo              take it back; disks that are connected stay until
#                                    nvme disconnect-all
#
# The host tries for ever to get a disk back that it lost, so that file systems wait and do not fail.
# Disks in /etc/fstab need the options _netdev,nofail. A host without an RDMA card has soft-roce.sh.
name=initiator.sh
. "$(dirname "$0")/common.sh"
arguments "$@"

service=nvmfd-connect.service
modules_file=/etc/modules-load.d/nvmfd-initiator.conf
multipath_file=/etc/modprobe.d/nvmfd-initiator.conf
udev_file=/etc/udev/rules.d/71-nvmfd-initiator.rules
multipath='options nvme_core multipath=Y'
# Paths take turns; without the rule only one of them carries data.
udev='ACTION=="add|change", SUBSYSTEM=="nvme-subsystem", ATTR{subsystype}=="nvm", ATTR{iopolicy}="round-robin"'

connect() {
    local address host port
    for address in "${rest[@]}"; do
        case $address in
        \[*\]:*) host=${address%%]*} host=${host#[} port=${address##*:} ;;
        *:*:*) host=$address port=4420 ;;
        *:*) host=${address%:*} port=${address##*:} ;;
        *) host=$address port=4420 ;;
        esac
        [[ $host =~ ^[0-9A-Fa-f.:%a-z]+$ && $port =~ ^[0-9]{1,5}$ ]] || wrong "$address is no address like 10.8.0.1 or [fd00::1]:4420"
        printf 'ExecStart=-/usr/sbin/nvme connect-all --transport=rdma --traddr=%s --trsvcid=%s --ctrl-loss-tmo=-1\n' "$host" "$port"
    done
}

if [ "$mode" != undo ]; then
    [ ${#rest[@]} -gt 0 ] || usage
    text="[Unit]
Description=Connect to NVMe targets over RDMA
Wants=network-online.target
After=network-online.target rdma-hw.target systemd-modules-load.service
Before=remote-fs-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
$(connect)

[Install]
WantedBy=multi-user.target"
else
    [ ${#rest[@]} = 0 ] || usage
fi

check() {
    report_modules nvme_rdma
    if live; then
        if command -v nvme >/dev/null; then
            report yes "nvme-cli"
        else
            report no "nvme-cli (apt install nvme-cli)"
        fi
        if [ -s /etc/nvme/hostnqn ]; then
            report yes "this host's name: $(cat /etc/nvme/hostnqn)"
        else
            report no "this host's name (nvme gen-hostnqn >/etc/nvme/hostnqn)"
        fi
        case $(cat /sys/module/nvme_core/parameters/multipath 2>/dev/null || true) in
        Y) report yes "multipath" ;;
        *) report no "multipath: after a reboot" ;;
        esac
    fi
    report_written "$modules_file" nvme_rdma
    report_written "$multipath_file" "$multipath"
    report_written "$udev_file" "$udev"
    report_written "$units/$service" "$text"
    report_enabled "$service"
}

up() {
    load nvme_rdma
    write "$modules_file" nvme_rdma
    write "$multipath_file" "$multipath"
    write "$udev_file" "$udev"
    write "$units/$service" "$text"
    enable "$service"
    if live; then
        if [ ! -s /etc/nvme/hostnqn ] && command -v nvme >/dev/null; then
            mkdir -p /etc/nvme
            nvme gen-hostnqn >/etc/nvme/hostnqn
        fi
        if command -v udevadm >/dev/null; then udevadm control --reload || true; fi
        if [ -d /run/systemd/system ]; then systemctl restart $service; fi
    fi
}

undo() {
    disable $service
    remove "$units/$service"
    remove "$modules_file"
    remove "$multipath_file"
    remove "$udev_file"
    reload_systemd
}

run
