#!/bin/bash
# memlock.sh [--check | --undo] [--root DIR] [SERVICE]: lets the daemon lock memory and open files
# without bound, as a service of systemd (nvmfd.service, if not said otherwise) and from a shell.
# Memory that an RDMA device or io_uring uses is locked.
#
#   memlock.sh           a drop-in for the service, and limits for logins; does nothing twice
#   memlock.sh --check   say what is there and what is missing; status 1 if anything is
#   memlock.sh --undo    take it back
#
# The service has the limits after its next restart, a shell after its next login.
name=memlock.sh
. "$(dirname "$0")/common.sh"
arguments "$@"
[ ${#rest[@]} -le 1 ] || usage
service=${rest[0]-nvmfd.service}
case $service in
*/* | .*) wrong "a service has a name like nvmfd.service, not $service" ;;
*.service) ;;
*) service=$service.service ;;
esac

dropin_file=/etc/systemd/system/$service.d/nvmfd-limits.conf
dropin='[Service]
LimitMEMLOCK=infinity
LimitNOFILE=65536'
limits_file=/etc/security/limits.d/nvmfd.conf
limits='* soft memlock unlimited
* hard memlock unlimited
* soft nofile 65536
* hard nofile 65536'

check() {
    report_written "$dropin_file" "$dropin"
    report_written "$limits_file" "$limits"
    if live; then note "locked memory of this shell: $(ulimit -l) KiB, open files: $(ulimit -n)"; fi
}

up() {
    write "$dropin_file" "$dropin"
    write "$limits_file" "$limits"
    reload_systemd
}

undo() {
    remove "$dropin_file"
    remove "$limits_file"
    reload_systemd
}

run
