#!/bin/bash
# modules.sh [--check | --undo] [--root DIR] [MODULE...]: the kernel modules by which programs use
# RDMA devices (ib_uverbs, rdma_ucm), now and at each boot, and others that are named: mlx5_ib, siw.
# A card's own driver is loaded by itself; soft-roce.sh cares for rdma_rxe.
#
#   modules.sh           load them, and have them loaded at boot; does nothing twice
#   modules.sh --check   say what is there and what is missing; status 1 if anything is
#   modules.sh --undo    have them loaded no more; those that are loaded stay
name=modules.sh
. "$(dirname "$0")/common.sh"
arguments "$@"

modules=(ib_uverbs rdma_ucm "${rest[@]}")
for module in "${modules[@]}"; do
    [[ $module =~ ^[A-Za-z0-9_-]+$ ]] || stop "no module is called $module"
done
file=/etc/modules-load.d/nvmfd.conf
text=$(printf '%s\n' "${modules[@]}")

check() {
    local module
    if live; then
        for module in "${modules[@]}"; do
            if [ -d "/sys/module/${module//-/_}" ]; then
                report yes "module $module"
            else
                report no "module $module (modprobe $module)"
            fi
        done
    fi
    report_written "$file" "$text"
}

up() {
    local module
    if live; then
        for module in "${modules[@]}"; do
            modprobe "$module" || stop "this kernel has no module $module; on Debian it is in linux-image-amd64, not in the cloud kernels"
        done
    fi
    write "$file" "$text"
}

undo() { rm -f "$root$file"; }

run
