#: two doctors measure RDMA between the devices of two ends, and a target shows that it is alive
#: providers verbs
#: targets nvmfd
#: topologies veth siw
#: seconds 120
"$WORK/bin/nvmfd" doctor --serve "$TARGET_ADDR" --provider verbs >"$OUT/answering" 2>&1 &
answering=$!
until_true 20 grep -q "^answering at $TARGET_ADDR:4429, by verbs" "$OUT/answering" ||
    fail "nobody answers: $(cat "$OUT/answering")"
for _ in 1 2; do
    said=$("$WORK/bin/nvmfd" doctor --peer "$TARGET_ADDR" --provider verbs) || fail "$said"
    say "$said"
    for line in "connect +a doctor answers at $TARGET_ADDR:4429" "send +a message" \
        "read +READ of 8 B: .* every byte right" "write +WRITE of 8 B: .* every byte right"; do
        expect_match "^ok +$line" "$said" "what the asking doctor says"
    done
done
kill $answering
wait $answering || true

target_up ram:16
said=$("$WORK/bin/nvmfd" doctor --peer "$TARGET_ADDR" --provider verbs) || fail "$said"
expect_match "RDMA is alive: an NVMe target accepts at $TARGET_ADDR:4420" "$said" "with a target"
host_connect
host_disconnect
target_down

status=0
said=$("$WORK/bin/nvmfd" doctor --peer "$TARGET_ADDR" --provider verbs) || status=$?
say "$said"
expect 1 $status "status with nobody there"
expect_match "nobody listens at ports 4429 and 4420" "$said" "with nobody there"
