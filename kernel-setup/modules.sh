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
    [[ $module =~ ^[A-Za-z0-9_-]+$ ]] || wrong "no module is called $module"
done
file=/etc/modules-load.d/nvmfd.conf
text=$(printf '%s\n' "${modules[@]}")

check() {
    report_modules "${modules[@]}"
    report_written "$file" "$text"
}

up() {
    load "${modules[@]}"
    write "$file" "$text"
}

undo() { remove "$file"; }

run
