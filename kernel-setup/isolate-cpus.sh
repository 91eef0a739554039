#!/bin/bash
# isolate-cpus.sh [--check | --undo] [--root DIR] CPUS: keeps CPUs free of everything but what is put
# there: for data cores that are pinned to them (cpus in [tuning]) and never sleep. CPUS is a list as
# the kernel writes it: 2-5,8.
#
#   isolate-cpus.sh CPUS          put it on the kernel's command line, by way of GRUB; nothing twice
#   isolate-cpus.sh --check CPUS  say what is there and what is missing; status 1 if anything is
#   isolate-cpus.sh --undo        take it back
#
# It holds after the next reboot. Leave CPUs for the system: the control thread, interrupts, the disks'
# kernel work. A daemon whose cores sleep when idle, as they do by default, gains nothing by it.
name=isolate-cpus.sh
. "$(dirname "$0")/common.sh"
arguments "$@"
cpus=${rest[0]-}
if [ "$mode" != undo ]; then
    [ ${#rest[@]} = 1 ] || usage
    [[ $cpus =~ ^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$ ]] || wrong "CPUS is a list like 2-5,8, not $cpus"
    [[ ,$cpus != *,0[-,]* && ,$cpus, != *,0,* ]] || wrong "CPU 0 is the system's; leave it out"
else
    [ ${#rest[@]} = 0 ] || usage
fi

file=/etc/default/grub.d/nvmfd-isolate-cpus.cfg
words="isolcpus=managed_irq,domain,$cpus nohz_full=$cpus rcu_nocbs=$cpus"
text="GRUB_CMDLINE_LINUX=\"\$GRUB_CMDLINE_LINUX $words\""

update() {
    live || return 0
    if command -v update-grub >/dev/null; then
        update-grub
    else
        note "this machine has no update-grub: put on the kernel's command line yourself: $words"
    fi
}

check() {
    report_written "$file" "$text"
    if live; then
        case " $(cat /proc/cmdline) " in
        *" $words "*) report yes "$words" ;;
        *) report no "$words: on the kernel's command line after a reboot" ;;
        esac
    fi
}

up() {
    is_written "$file" "$text" && return
    write "$file" "$text"
    update
}

undo() {
    [ -f "$root$file" ] || return 0
    remove "$file"
    update
}

run
