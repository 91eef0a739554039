#: a daemon with one idle connected host takes less than 2 % of a processor, and sleeps
#: targets nvmfd
#: core
target_up ram:64
host_connect --nr-io-queues 2
load_run warm --rw=randread --bs=4k --iodepth=8 --size=8m --io_size=1m
sleep 1
# A machine whose processors are taken away for a while counts that time as the daemon's: of three
# windows the quietest tells what the daemon takes.
least=
for window in 1 2 3; do
    ticks=$(target_ticks) sleeps=$(target_sleeps)
    sleep 5
    ticks=$(($(target_ticks) - ticks)) sleeps=$(($(target_sleeps) - sleeps))
    say "window $window: $ticks ticks of $(($(getconf CLK_TCK) * 5)), $sleeps sleeps"
    if [ -z "$least" ] || ((ticks < least)); then least=$ticks; fi
    # Keep-alives, the counts' last showing and timers: a poll loop would be far above.
    ((sleeps < 100)) || fail "the idle daemon woke up $sleeps times in 5 s"
done
((least * 50 < $(getconf CLK_TCK) * 5)) || fail "the idle daemon took $least ticks in 5 s (2 % is $(($(getconf CLK_TCK) / 10)))"
host_disconnect
