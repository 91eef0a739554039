#!/bin/bash
# hugepages.sh [--check | --undo] [--root DIR] [COUNT]: reserves COUNT huge pages, now and at each
# boot, for tuning.hugepages. "nvmfd doctor" says how many a configuration needs.
#
#   hugepages.sh COUNT           reserve them; does nothing twice
#   hugepages.sh --check COUNT   say what is there and what is missing; status 1 if anything is
#   hugepages.sh --undo          as many as before the first call
name=hugepages.sh
. "$(dirname "$0")/common.sh"
arguments "$@"

file=/etc/sysctl.d/90-nvmfd-hugepages.conf
before='# Before: '
count=${rest[0]-}
if [ "$mode" != undo ]; then
    [ ${#rest[@]} = 1 ] || usage
    [[ $count =~ ^[1-9][0-9]{0,7}$ ]] || wrong "COUNT is a number of pages, not $count"
else
    [ ${#rest[@]} = 0 ] || usage
fi

now() { if live; then cat /proc/sys/vm/nr_hugepages; else echo 0; fi; }

# How many there were before the first call.
former() {
    local said
    said=$(sed -n "s/^$before//p" "$root$file" 2>/dev/null || true)
    echo "${said:-$(now)}"
}

text() { printf '%s%s\nvm.nr_hugepages = %s' "$before" "$(former)" "$count"; }

check() {
    if live; then
        if [ "$(now)" -ge "$count" ]; then
            report yes "$(now) huge pages"
        else
            report no "$(now) huge pages of $count; memory may be in pieces: try after a reboot"
        fi
    fi
    report_written "$file" "$(text)"
}

up() {
    local text
    text=$(text)
    write "$file" "$text"
    if live; then sysctl -q -w "vm.nr_hugepages=$count"; fi
}

undo() {
    [ -f "$root$file" ] || return 0
    if live; then sysctl -q -w "vm.nr_hugepages=$(former)"; fi
    remove "$file"
}

run
