#!/bin/sh
# Runs a command in this checkout under another kernel, with control groups of version 2; for root:
#
#   scripts/under_another_kernel.sh .venv/bin/groundbox doctor
#   UML=1 MEMORY=2G scripts/under_another_kernel.sh .venv/bin/groundbox doctor --waive landlock
#
# The machine sees this one's files. What it writes is in its memory and gone at the end.
#
# Without UML, it is Debian's kernel in a virtual machine. Processors are emulated, which takes about twenty times as
# long; KVM=1 uses /dev/kvm instead (not tried). KERNEL=VERSION is a folder of /lib/modules. It needs
#
#   apt-get install qemu-system-x86 linux-image-cloud-amd64 busybox-static cpio kmod
#
# With UML=1 it is User-Mode Linux, a kernel that is a process: Linux 6.1 with seccomp and user namespaces, one
# processor, no Landlock. It boots in two seconds and computes at full speed; a system call costs many times more.
# ROOT=FOLDER boots another system's files instead of this machine's. It needs
#
#   apt-get install user-mode-linux kmod
#
# MEMORY=8G and WITHIN_S=1800 (seconds) can be chosen in both.
# The exit status is the command's; 70 if the machine did not start or did not end in time.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
memory=${MEMORY:-8G}
root=${ROOT:-/}
fail() {
    echo "$1" >&2
    exit 70
}
[ $# -gt 0 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "only root can start the machine, because it sees all files of this one" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

quoted=
for word in "$@"; do
    quoted="$quoted '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done
[ "$root" = / ] || here=/
cat >"$work/command" <<EOF
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm; mount -t tmpfs run /run
case '$here/' in /tmp/*) ;; *) mount -t tmpfs tmp /tmp ;; esac
mount -t cgroup2 -o nsdelegate,memory_recursiveprot none /sys/fs/cgroup
mkdir /sys/fs/cgroup/session; echo \$\$ >/sys/fs/cgroup/session/cgroup.procs
ip link set lo up 2>/dev/null
dmesg -n 1 2>/dev/null
cd '$here' && $quoted
echo "the command ended with \$?"
echo o >/proc/sysrq-trigger
sleep 60
EOF

boot_uml() {
    overlay=$(find /usr/lib/uml/modules -name overlay.ko 2>/dev/null | head -n 1)
    [ -n "$overlay" ] && command -v linux.uml >/dev/null || fail "there is no kernel: apt-get install user-mode-linux kmod"
    cat >"$work/init" <<EOF
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc && insmod $overlay
mount -t tmpfs -o size=90% own /mnt && mkdir /mnt/new /mnt/work /mnt/root
mount -t overlay -o lowerdir=$root,upperdir=/mnt/new,workdir=/mnt/work overlay /mnt/root
cp $work/command /mnt/root/.command && cd /mnt/root
mount -t proc proc proc && mount -t sysfs sys sys && mount -t devtmpfs dev dev
pivot_root . mnt && exec chroot . /bin/sh /.command
echo o >/proc/sysrq-trigger
sleep 60
EOF
    chmod +x "$work/init"
    timeout "${WITHIN_S:-1800}" linux.uml mem="$memory" root=/dev/root rootfstype=hostfs rootflags=/ ro \
        init="$work/init" con=null con0=fd:0,fd:1 quiet </dev/null 2>&1 | grep --line-buffered -v -E \
        '^SELinux: |^Core dump limits|^Checking |^Adding [0-9]+ bytes|^mapper |^mmapper|ubd device|sysrq: Power|reboot: '
}

boot_emulated() {
    kernel=${KERNEL:-$(ls /lib/modules | grep cloud | sort -V | tail -n 1)}
    needs="apt-get install qemu-system-x86 linux-image-cloud-amd64 busybox-static cpio kmod"
    [ -n "$kernel" ] && [ -e "/boot/vmlinuz-$kernel" ] || fail "there is no kernel to boot: $needs"
    for each in qemu-system-x86_64 busybox cpio modprobe; do
        command -v $each >/dev/null || fail "$each is missing: $needs"
    done
    mkdir -p "$work/image/bin" "$work/image/modules" "$work/image/proc" "$work/image/sys" "$work/image/dev" \
        "$work/image/host" "$work/image/own" "$work/image/root"
    cp "$(command -v busybox)" "$work/image/bin/busybox"
    cp "$work/command" "$work/image/command"
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
    timeout "${WITHIN_S:-1800}" qemu-system-x86_64 $accelerator -smp "$(nproc)" -m "$memory" \
        -object memory-backend-memfd,id=memory,size="$memory",share=on -numa node,memdev=memory \
        -kernel "/boot/vmlinuz-$kernel" -initrd "$work/image.gz" -append "console=ttyS0 quiet panic=-1" \
        -chardev socket,id=files,path="$work/files" -device vhost-user-fs-pci,chardev=files,tag=host \
        -display none -serial stdio -no-reboot -nic none </dev/null
    kill "$server" 2>/dev/null
}

if [ -n "${UML:-}" ]; then
    boot_uml | tee "$work/console" || :
else
    [ "$root" = / ] || fail "ROOT goes with UML=1 only"
    boot_emulated | tee "$work/console" || :
fi
status=$(sed -n 's/\r$//; s/^the command ended with \([0-9]*\)$/\1/p' "$work/console" | tail -n 1)
exit "${status:-70}"
