package clientfile

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// This file converts the paths in an entry: the working directory, and the Python environment in which
// some clients look for the command.

// folder sets the working directory. Clients start the servers of a project in the folder of the
// project. Other relative paths are relative to the folder in which the client was started, which we
// don't know. Most people start it in the folder of the file, so we look there.
func (r *reading) folder(m *Member, opt Options) {
	cwd := r.entry.Get("cwd").text()
	at := &Member{Key: "cwd", Line: m.Line, Col: m.Col}
	switch {
	case cwd == "" && r.s.Project != "":
		r.entry.set("cwd", Text(Literal(r.s.Project)))
	case cwd == "" || absolute(cwd):
	case strings.HasPrefix(cwd, "~/"):
		r.s.need(Variable{Name: "HOME"})
		r.entry.set("cwd", Text("${HOME}"+cwd[1:]))
	case r.s.Project != "":
		r.entry.set("cwd", Text(Literal(opt.join(r.s.Project, cwd))))
	case opt.Folder != "" && opt.exists(opt.join(opt.Folder, cwd)):
		full := opt.join(opt.Folder, cwd)
		r.entry.set("cwd", Text(Literal(full)))
		r.note(at, strconv.Quote(cwd)+" becomes "+full+", as it is relative to the file", true)
	default:
		r.entry = without(r.entry, []string{"cwd"})
		r.note(at, strconv.Quote(cwd)+" is ignored: the path is relative to the folder in which the client was started; write the full path", false)
	}
}

// program returns the command of the entry. If the client looks for it in a Python environment, so do we:
// in the working directory of the server, and else beside the file.
func (r *reading) program(opt Options) *Value {
	given := r.command[0]
	if r.venv == nil || isFull(given.Text) {
		return r.scalar(given)
	}
	name := given.Text
	if base := strings.ToLower(strings.TrimSuffix(name, ".exe")); base == "python3" || base == "py" {
		name = "python" // an environment has it under this name on every system
	}
	venv := r.venv.Value.Text
	dirs := []string{venv}
	if !absolute(venv) {
		dirs = nil
		for _, base := range []string{r.entry.Get("cwd").text(), opt.Folder} {
			if base != "" {
				dirs = append(dirs, opt.join(base, venv))
			}
		}
	}
	for _, dir := range dirs {
		if program := opt.inVenv(dir, name); opt.exists(program) {
			r.note(r.venv, given.Text+" becomes "+program, true)
			return &Value{Kind: String, Text: Literal(program), Line: given.Line, Col: given.Col}
		}
	}
	where := strconv.Quote(venv) + " is not a folder that exists"
	if len(dirs) > 0 {
		where = "there is no " + opt.inVenv(dirs[0], name)
	}
	r.note(r.venv, "is ignored: "+where+"; write the full path of the program in the environment as the command, such as "+opt.inVenv(opt.join("PATH", "venv"), name), false)
	return r.scalar(given)
}

// absolute reports whether a path is absolute on some system, or begins with a reference to a variable.
func absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\\`) || strings.HasPrefix(path, "${") || len(path) > 2 && path[1] == ':'
}

// isFull reports whether a path is absolute and has no reference to a variable.
func isFull(path string) bool { return absolute(path) && !strings.Contains(path, "${") }

func (o Options) exists(path string) bool { return o.Exists != nil && o.Exists(path) }

// join joins a folder and a relative path on the system of the file.
func (o Options) join(folder, path string) string {
	switch {
	case o.OS == runtime.GOOS:
		return filepath.Join(folder, filepath.FromSlash(path))
	case o.OS == "windows":
		return folder + `\` + strings.ReplaceAll(strings.TrimPrefix(path, "./"), "/", `\`)
	}
	return folder + "/" + strings.TrimPrefix(path, "./")
}

// inVenv returns the path of a program in a Python environment.
func (o Options) inVenv(dir, name string) string {
	if o.OS == "windows" {
		return o.join(dir, "Scripts/"+strings.TrimSuffix(name, ".exe")+".exe")
	}
	return o.join(dir, "bin/"+name)
}
