# The wire to a daemon that runs outside of the machine (topologies tap and
# routed), and what can go wrong on it.

# outside COMMAND...: run it at the other end (see outside.sh), which knows the
# words of target.sh; its output is ours and so is its status.
outside() {
    local ask
    [ ! -e "$WORK/ask/gone" ] || return 1
    ask=$(mktemp "$WORK/ask/XXXXXX")
    printf 'OUT=%q\n%s\n' "$OUT" "$(printf '%q ' "$@")" >"$ask"
    echo "@@ outside ${ask##*/}" >&3
    until_true 60 test -e "$ask.status" || fail "no answer from the other end to: $*"
    cat "$ask.output"
    return "$(cat "$ask.status")"
}

target_up() { outside target_up "$@"; }
target_down() { outside target_down; }
target_again() { outside target_again; }
target_crash() { outside target_crash; }
target_ticks() { outside target_ticks; }
target_sleeps() { outside target_sleeps; }
target_tell() { outside target_tell "$@"; }
target_refuses() { outside target_refuses "$@"; }
target_reload() { outside target_reload "$@"; }

# wire_mtu HOST [OUTSIDE]: MTU of the host's interface, and of the other end's
# (the same without). Connections already made keep their path MTU, so this is
# for between them. Needs the topology routed.
wire_mtu() {
    ip link set host0 mtu "$1"
    ip netns exec router ip link set edge0 mtu "$1"
    outside wire_mtu "${2:-$1}"
}

# impair to_host|to_target|both NETEM-ARGUMENTS...: do this to packets of that
# direction; `impair none` ends it. Needs the topology routed.
impair() {
    local interface way=$1
    shift
    load sch_netem
    for interface in edge0 wire0; do
        ip netns exec router tc qdisc delete dev $interface root 2>/dev/null || true
        case $way-$interface in
        both-* | to_host-edge0 | to_target-wire0)
            ip netns exec router tc qdisc add dev $interface root netem limit 20000 "$@"
            ;;
        esac
    done
    say "network: $way $*"
}

# impaired: packets lost since impair, in both directions.
impaired() { ip netns exec router tc -s qdisc show | grep -A1 netem | sed -n 's/.*dropped \([0-9]*\),.*/\1/p' | awk '{ n += $1 } END { print n + 0 }'; }

# gave_up: connections that the daemon gave up because the network did not let it through.
gave_up() { grep -c 'RetryExceeded' "$OUT/target.log" || true; }
