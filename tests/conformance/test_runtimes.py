"""Every language of ours against the public suite."""

from groundbox.testing.languages import Programs, RuntimeConformance


class TestShell(RuntimeConformance):
    language = "shell"
    programs = Programs(
        prints="echo hello",
        fails="true\nno-such-command",
        spins="while :; do :; done",
        heeds="sleep 600",
        ignores="trap '' INT TERM; while :; do :; done",
        hoards="x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done",
        floods="head -c 100000 /dev/zero | tr '\\0' x; echo",
        writes="echo hello > made.txt",
        reads="cat given.txt",
        leaves="setsid sleep 98761 & disown",
        script='echo "$1"; cat',
        exits="exit 3",
    )


class TestJavaScript(RuntimeConformance):
    language = "javascript"
    programs = Programs(
        prints="console.log('hello')",
        fails="1\nnull.x",
        spins="while (true) {}",
        heeds="await new Promise(resolve => setTimeout(resolve, 600000))",
        ignores="await 1; while (true) {}",
        hoards="const all = []; while (true) all.push(new Array(100000).fill(1.5))",
        floods="console.log('x'.repeat(100000))",
        writes="require('fs').writeFileSync('made.txt', 'hello\\n')",
        reads="console.log(require('fs').readFileSync('given.txt', 'utf8'))",
        leaves="require('child_process').spawn('sleep', ['98761'], { detached: true, stdio: 'ignore' }).unref()",
        script="process.stdout.write(process.argv[2] + '\\n' + require('fs').readFileSync(0))",
        exits="process.exit(3)",
        keeps="let kept = 42",
        recalls="kept",
    )


class TestJavaScriptScripts(RuntimeConformance):
    language = "javascript"
    default_mode = "script"
    programs = Programs(
        prints="console.log('hello')",
        fails="1\nnull.x",
        spins="while (true) {}",
        heeds="setTimeout(() => 0, 600000)",
        ignores="process.on('SIGINT', () => 0); while (true) {}",
        hoards="const all = []; while (true) all.push(new Array(100000).fill(1.5))",
        floods="console.log('x'.repeat(100000))",
        writes="require('fs').writeFileSync('made.txt', 'hello\\n')",
        reads="console.log(require('fs').readFileSync('given.txt', 'utf8'))",
    )


class TestDot(RuntimeConformance):
    """Graphs print nothing, make no file and read none but images; what is left is shown by tests/runtimes."""

    language = "dot"
    programs = Programs(fails="digraph {\na -> -> b }")
