package matrix

import "os"

// interrupt kills a process, because Windows has no signal that asks it to exit.
func interrupt(p *os.Process) { _ = p.Kill() }
