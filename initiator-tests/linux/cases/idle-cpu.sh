#: a daemon with one idle connected host takes less than 2 % of a processor
#: targets nvmfd
#: core
target_up ram:64
host_connect --nr-io-queues 2
load_run warm --rw=randread --bs=4k --iodepth=8 --size=8m --io_size=1m
sleep 1
before=$(target_ticks)
sleep 10
used=$(($(target_ticks) - before))
say "$used ticks of $(($(getconf CLK_TCK) * 10)) in 10 s"
((used * 50 < $(getconf CLK_TCK) * 10)) || fail "the idle daemon took $used ticks in 10 s (2 % is $(($(getconf CLK_TCK) / 5)))"
host_disconnect
