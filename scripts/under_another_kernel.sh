#!/bin/sh
# Runs a command in this checkout under Debian's own kernel, in a virtual machine with control groups of version 2:
#
#   scripts/under_another_kernel.sh .venv/bin/groundbox doctor
#   scripts/under_another_kernel.sh .venv/bin/python -m pytest -q tests/jail
#
# The machine sees this one's files, and what it writes is in its memory and gone at the end. Its processors are emulated,
# which takes about twenty times as long; KVM=1 uses /dev/kvm in place of that (not tried). MEMORY=8G, WITHIN_S=1800
# (seconds) and KERNEL=VERSION (a folder of /lib/modules) can be chosen. It is for root, and needs
#
#   apt-get install qemu-system-x86 linux-image-cloud-amd64 busybox-static cpio
#
# The exit status is the command's; 70 where the machine did not come up or did not end in time.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
kernel=${KERNEL:-$(ls /lib/modules | grep cloud | sort -V | tail -n 1)}
lacking() {
    echo "$1: apt-get install qemu-system-x86 linux-image-cloud-amd64 busybox-static cpio kmod" >&2
    exit 70
}
[ $# -gt 0 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "it is for root: virtual machines see all files of this one" >&2; exit 2; }
[ -n "$kernel" ] && [ -e "/boot/vmlinuz-$kernel" ] || lacking "there is no kernel to boot"
for each in qemu-system-x86_64 busybox cpio modprobe; do
    command -v $each >/dev/null || lacking "$each is missing"
done

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || :; rm -rf "$work"' EXIT

mkdir -p "$work/image/bin" "$work/image/modules" "$work/image/proc" "$work/image/sys" "$work/image/dev" \
    "$work/image/host" "$work/image/own" "$work/image/root"
cp "$(command -v busybox)" "$work/image/bin/busybox"
number=10
for name in virtio_pci virtiofs overlay virtio_rng; do
    modprobe -S "$kernel" --show-depends $name | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' | while read -r file; do
    cp "$file" "$work/image/modules/$number-$(basename "$file")"
    number=$((number + 1))
done

cat >"$work/image/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev
for each in /modules/*; do insmod "$each"; done
mount -t virtiofs host /host && mount -t tmpfs -o size=60% own /own && mkdir /own/new /own/work
mount -t overlay -o lowerdir=/host,upperdir=/own/new,workdir=/own/work overlay /root
mount --move /proc /root/proc && mount --move /sys /root/sys && mount --move /dev /root/dev
cp /command /root/.command
exec switch_root /root /bin/sh /.command
EOF
chmod +x "$work/image/init"

quoted=
for word in "$@"; do
    quoted="$quoted '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done
cat >"$work/image/command" <<EOF
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t tmpfs tmp /tmp; mount -t tmpfs run /run
mount -t cgroup2 -o nsdelegate,memory_recursiveprot none /sys/fs/cgroup
mkdir /sys/fs/cgroup/session; echo \$\$ >/sys/fs/cgroup/session/cgroup.procs
ip link set lo up 2>/dev/null
dmesg -n 1
cd '$here' && $quoted
echo "the command ended with \$?"
echo o >/proc/sysrq-trigger
sleep 60
EOF
(cd "$work/image" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/image.gz"

/usr/lib/qemu/virtiofsd --socket-path="$work/files" -o source=/ -o sandbox=chroot -o cache=always \
    >"$work/files.log" 2>&1 &
server=$!
while [ ! -S "$work/files" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/files.log" >&2; exit 70; }
    sleep 0.1
done

accelerator="-accel tcg,thread=multi -cpu max"
[ -z "${KVM:-}" ] || accelerator="-accel kvm -cpu host"
memory=${MEMORY:-8G}
timeout "${WITHIN_S:-1800}" qemu-system-x86_64 $accelerator -smp "$(nproc)" -m "$memory" \
    -object memory-backend-memfd,id=memory,size="$memory",share=on -numa node,memdev=memory \
    -kernel "/boot/vmlinuz-$kernel" -initrd "$work/image.gz" -append "console=ttyS0 quiet panic=-1" \
    -chardev socket,id=files,path="$work/files" -device vhost-user-fs-pci,chardev=files,tag=host \
    -display none -serial stdio -no-reboot -nic none </dev/null | tee "$work/console" || :
status=$(sed -n 's/\r$//; s/^the command ended with \([0-9]*\)$/\1/p' "$work/console" | tail -n 1)
exit "${status:-70}"
