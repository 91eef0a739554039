#!/bin/bash
# soft-roce.sh [--check | --undo] [--root DIR] NETDEV: a soft-RoCE (rxe) RDMA device on a network
# interface, and what a daemon needs to use it without being root.
#
#   soft-roce.sh NETDEV          load modules, make the RDMA device rxe_NETDEV, keep both over a
#                                reboot, raise the limit of locked memory; does nothing twice
#   soft-roce.sh --check NETDEV  say what is there and what is missing; status 1 if anything is
#   soft-roce.sh --undo NETDEV   take back what was made; a device made by hand stays
name=soft-roce.sh
. "$(dirname "$0")/common.sh"
arguments "$@"
kind=rxe label=soft-roce modules=(rdma_rxe ib_uverbs rdma_ucm)
. "$(dirname "$0")/software-link.sh"

run
