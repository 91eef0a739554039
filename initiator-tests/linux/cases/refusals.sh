#: a wrong name, a host not allowed and a wrong address are refused with the host's right error
#: seconds 60
hostnqn=$(cat /etc/nvme/hostnqn)
target_up -a nqn.2014-08.org.nvmexpress:uuid:00000000-1111-4222-8333-444444444444 ram:64
refused() {
    local what=$1 pattern=$2
    shift 2
    if timeout 30 nvme connect -t rdma -s 4420 -w "$HOST_ADDR" "$@" >"$OUT/answer" 2>&1; then
        fail "$what: the host connected"
    fi
    cat "$OUT/answer"
    dmesg | grep -iE 'nvme' | tail -n 3
    expect_match "$pattern" "$(cat "$OUT/answer"; dmesg | tail -n 6)" "$what"
}
say "host not allowed"
# Connect Invalid Host: SCT 1h SC 84h, with or without Do Not Retry.
refused "host not allowed" "subsystem does not allow host|[^0-9]0?x?4?184|388|16772|not allow" -a "$TARGET_ADDR" -n "$NQN"
say "no such subsystem"
refused "no such subsystem" "cntlid|Connect Invalid Data|invalid (parameter|argument)|subsysnqn|NQN" -a "$TARGET_ADDR" -n "$NQN-missing"
say "nobody at this address"
refused "no listener on this port" "rdma_resolve|[Ee]rror|rejected|refused|reset|failed" -a "$TARGET_ADDR" -n "$NQN" -s 4421
say "and the allowed host gets in"
echo "$hostnqn" >/dev/null
nvme connect -t rdma -s 4420 -w "$HOST_ADDR" -a "$TARGET_ADDR" -n "$NQN" \
    -q nqn.2014-08.org.nvmexpress:uuid:00000000-1111-4222-8333-444444444444 -I 00000000-1111-4222-8333-444444444444
until_true 10 host_find || fail "the allowed host has no device"
host_disconnect
