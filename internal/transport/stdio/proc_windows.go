package stdio

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var errExecFormat error = windows.ERROR_BAD_EXE_FORMAT

// processGroup is the job of a child. The job contains the child and all its descendants. Windows
// kills them when the last handle of the job is closed. Only this process has a handle.
type processGroup struct {
	job   windows.Handle
	child windows.Handle
}

// prepare makes the child start suspended. The child begins to run only after it was put into its
// job, so that none of its own children can leave the job. A batch file is run by the cmd.exe of Windows.
func prepare(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_NO_WINDOW,
		HideWindow:    true,
	}
	if !isBatch(cmd.Path) {
		return nil
	}
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return err
	}
	cmd.SysProcAttr.CmdLine, err = batchLine(cmd.Path, cmd.Args[1:])
	cmd.Path = filepath.Join(system, "cmd.exe")
	return err
}

func (g *processGroup) adopt(p *os.Process) (err error) {
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if g.job, err = windows.CreateJobObject(nil, nil); err != nil {
		return fmt.Errorf("create job: %w", err)
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{
			LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
		},
	}
	if _, err = windows.SetInformationJobObject(g.job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		return fmt.Errorf("limit job: %w", err)
	}
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE | windows.SYNCHRONIZE
	if g.child, err = windows.OpenProcess(access, false, uint32(p.Pid)); err != nil {
		return fmt.Errorf("open process: %w", err)
	}
	if err = windows.AssignProcessToJobObject(g.job, g.child); err != nil {
		return fmt.Errorf("assign to job: %w", err)
	}
	return resume(uint32(p.Pid))
}

// resume resumes the only thread of a suspended process.
func resume(pid uint32) error {
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer windows.CloseHandle(all)
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(all, &entry); err == nil; err = windows.Thread32Next(all, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("open thread: %w", err)
		}
		defer windows.CloseHandle(thread)
		if _, err := windows.ResumeThread(thread); err != nil {
			return fmt.Errorf("resume thread: %w", err)
		}
		return nil
	}
	return fmt.Errorf("find thread: %w", err)
}

func (g *processGroup) awaitExit() { _, _ = windows.WaitForSingleObject(g.child, windows.INFINITE) }

func (g *processGroup) recordDescendants() {}

// terminate kills the job, because a graceful signal cannot reach a process with another console.
func (g *processGroup) terminate() { g.kill() }

func (g *processGroup) kill() { _ = windows.TerminateJobObject(g.job, 1) }

func (g *processGroup) cleanUp() {}

func (g *processGroup) close() {
	for _, h := range []*windows.Handle{&g.job, &g.child} {
		if *h != 0 {
			_ = windows.CloseHandle(*h)
			*h = 0
		}
	}
}
