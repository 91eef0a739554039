#: the scripts that make RDMA devices, set their type of service, reserve huge pages and load modules: twice, and back
#: machines qemu
#: targets nvmet
script=$WORK/kernel-setup/soft-roce.sh
ip link add extra0 type dummy
ip link set extra0 up
if "$script" --check extra0; then fail "--check found a device before there was one"; fi
"$script" extra0
"$script" extra0
"$script" --check extra0
expect_match "link rxe_extra0/1 .*netdev extra0" "$(rdma link)" "rdma link"
"$script" --undo extra0
if rdma link show rxe_extra0/1; then fail "--undo left the device"; fi
if "$script" nothing0; then fail "an interface that is not there was accepted"; fi
if "$script" lo; then fail "the loopback interface was accepted"; fi

folder=$(dirname "$script")
"$script" extra0
if "$folder/roce.sh" --check rxe_extra0 104; then fail "a type of service was found that was not set"; fi
"$folder/roce.sh" rxe_extra0 104
"$folder/roce.sh" rxe_extra0 104
expect "104" "$(cat /sys/kernel/config/rdma_cm/rxe_extra0/ports/1/default_roce_tos)" "type of service"
"$folder/roce.sh" --undo rxe_extra0
if "$folder/roce.sh" --check rxe_extra0 104; then fail "--undo left the type of service"; fi
"$script" --undo extra0

# Huge pages come at once, and go back to what there was.
before=$(cat /proc/sys/vm/nr_hugepages)
if "$folder/hugepages.sh" --check $((before + 4)); then fail "huge pages were found that are not there"; fi
"$folder/hugepages.sh" $((before + 4))
expect $((before + 4)) "$(awk '/^HugePages_Total/ { print $2 }' /proc/meminfo)" "huge pages"
"$folder/hugepages.sh" --undo
expect "$before" "$(cat /proc/sys/vm/nr_hugepages)" "huge pages after --undo"

modprobe -r rdma_ucm
if "$folder/modules.sh" --check; then fail "a module was found that is not loaded"; fi
"$folder/modules.sh"
"$folder/modules.sh" --check
"$folder/modules.sh" --undo
