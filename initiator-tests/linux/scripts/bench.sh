#: both targets by turns, measured by fio
#: seconds 1800
measure() {
    local workload=$1
    shift
    fio --name="$workload" --filename="$DEV" --ioengine=io_uring --direct=1 --group_reporting \
        --randrepeat=0 --norandommap --time_based --runtime="$BENCH_SECONDS" --ramp_time=1 \
        --output-format=terse --terse-version=3 "$@" >"$OUT/terse" 2>"$OUT/fio.err" ||
        fail "fio $workload: $(head -n 2 "$OUT/fio.err")"
    echo "RESULT $TARGET $workload $(grep '^3;' "$OUT/terse")"
}
order=${BENCH_TARGETS//,/ }
for ((round = 1; round <= BENCH_ROUNDS; round++)); do
    for TARGET in $order; do
        say "round $round, $TARGET"
        target_up null:1024
        host_connect --nr-io-queues 1
        measure 4k-randread-qd1 --rw=randread --bs=4k --iodepth=1
        measure 4k-randread-qd32 --rw=randread --bs=4k --iodepth=32
        measure 128k-read-qd8 --rw=read --bs=128k --iodepth=8
        measure 128k-write-qd8 --rw=write --bs=128k --iodepth=8
        host_disconnect
        target_down
    done
    order=$(tac -s ' ' <<<"$order " | tr -d '\n')
done
