package cli

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/doctor"
)

// mark returns a glyph. If stdout is a terminal with colours, the glyph has the given colour.
func (c *doctorCommand) mark(glyph, colour string) string {
	if c.screen && c.status.colour {
		return colour + glyph + plain
	}
	return glyph
}

// printReport prints the report about a server: the verdict, the findings and, with --all, the
// tests that passed.
func (c *doctorCommand) printReport(server config.Server, r *doctor.Report) error {
	w := bufio.NewWriter(c.stdout)
	if c.asJSON {
		_, _ = w.Write(append(r.JSON(), '\n'))
	} else {
		c.printVerdict(w, server, r)
		findings := r.Findings
		if v := &r.Verdict; !v.Reached && v.Failure != nil && v.Failure.Action != "" {
			findings = slices.Clone(findings)
			for i := range findings {
				findings[i].Fix = "" // the verdict already contains a more exact instruction
			}
		}
		c.printFindings(w, findings)
		if c.all && len(r.Passed) > 0 {
			fmt.Fprintf(w, "\npassed:\n")
			for _, name := range r.Passed {
				fmt.Fprintf(w, "  %s %s\n", c.mark("✓", green), clean(name))
			}
		}
		hidden := 0
		if !c.all {
			hidden = countLevel(r.Findings, doctor.Info)
		}
		fmt.Fprintf(w, "\n%s%s\n", countOf(r.Findings), hiddenText(hidden, len(r.Passed) > 0 && !c.all))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case !r.Verdict.Reached:
		return exitError(exitUnreachable)
	case !r.Verdict.Healthy:
		return errReported
	}
	return nil
}

// hiddenText returns the end of the last line of a report. It describes the results that only --all
// shows. infos is the number of hidden infos. passed is true if the report hides tests that passed.
func hiddenText(infos int, passed bool) string {
	switch {
	case infos > 0 && passed:
		return "; --all shows infos and what passed"
	case infos > 0:
		return "; --all shows infos"
	case passed:
		return "; --all shows what passed"
	}
	return ""
}

func countLevel(all []doctor.Finding, level doctor.Level) (n int) {
	for _, f := range all {
		if f.Level == level {
			n++
		}
	}
	return n
}

// printVerdict prints whether the server works, what it offers, and which revisions work.
func (c *doctorCommand) printVerdict(w *bufio.Writer, server config.Server, r *doctor.Report) {
	v := &r.Verdict
	name := clean(server.Name)
	if v.Offer.Name != "" {
		name = strings.TrimSpace(clean(v.Offer.Name) + " " + clean(v.Offer.Version))
	}
	errors, warnings := countLevel(r.Findings, doctor.Error), countLevel(r.Findings, doctor.Warning)
	switch {
	case !v.Reached && v.Failure != nil && v.Failure.Class == failure.NotJSON:
		fmt.Fprintf(w, "%s %s does not speak MCP\n", c.mark("✗", red), name)
	case !v.Reached:
		fmt.Fprintf(w, "%s %s does not respond\n", c.mark("✗", red), name)
	case errors > 0:
		fmt.Fprintf(w, "%s %s has %s\n", c.mark("✗", red), name, quantity(errors, "error"))
	case v.SignIn:
		fmt.Fprintf(w, "%s %s wants sign-in\n", c.mark("–", yellow), name)
	case warnings > 0:
		fmt.Fprintf(w, "%s %s works, with %s\n", c.mark("!", yellow), name, quantity(warnings, "warning"))
	default:
		fmt.Fprintf(w, "%s %s works\n", c.mark("✓", green), name)
	}
	if v.Reached {
		_, _ = w.WriteString(wrap(offerText(v.Offer), "  ", c.columns()))
		c.printRevisions(w, v)
	}
	c.printWhy(w, v.Failure)
	if v.SignIn {
		how := "pass"
		if v.Failure != nil && v.Failure.Class == failure.NeedsSignIn {
			how = "sign in with --sign-in, or pass"
		}
		_, _ = w.WriteString(wrap("To test the rest, "+how+" a token with --header 'Authorization: Bearer …'.", "  ", c.columns()))
	}
}

// offerText describes how soon the server was ready, what it offers, and how many tokens its lists
// cost.
func offerText(o doctor.Offer) string {
	var parts []string
	if o.Ready > 0 {
		parts = append(parts, "ready in "+secondsOf(o.Ready))
	}
	words := map[string]string{"tools": "tool", "resources": "resource", "resourceTemplates": "resource template", "prompts": "prompt"}
	var lists []string
	for _, l := range o.Lists {
		if l.Items > 0 {
			lists = append(lists, quantity(l.Items, words[l.Kind]))
		}
	}
	switch {
	case len(lists) > 0:
		parts = append(parts, strings.Join(lists, ", "))
	case len(o.Lists) > 0:
		parts = append(parts, "offers nothing")
	}
	if o.Tokens > 0 {
		parts = append(parts, tokens.About(o.Tokens)+" of context")
	}
	return strings.Join(parts, "; ")
}

// secondsOf formats a duration in seconds with one decimal. If the duration is shorter than a tenth
// of a second, secondsOf formats it in milliseconds.
func secondsOf(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// printRevisions prints which revisions work without Dragoman, and which work through Dragoman. With
// --all, it also prints why a revision does not work.
func (c *doctorCommand) printRevisions(w *bufio.Writer, v *doctor.Verdict) {
	var dates, missing []string
	for _, r := range v.Revisions {
		glyph := c.mark("✗", red)
		if r.Works {
			glyph = c.mark("✓", green)
		}
		dates = append(dates, glyph+" "+r.Revision.String())
		if !r.Through {
			missing = append(missing, r.Revision.String())
		}
	}
	if v.SignIn && !v.Through {
		return
	}
	fmt.Fprintf(w, "  directly: %s\n", strings.Join(dates, " "))
	dialect := ""
	if v.Dialect != "" {
		dialect = ", in the dialect " + clean(v.Dialect)
	}
	switch {
	case !v.Through:
		fmt.Fprintf(w, "  through Dragoman: none\n")
	case len(missing) == len(v.Revisions):
		fmt.Fprintf(w, "  through Dragoman: yes%s; not tested\n", dialect)
	case len(missing) > 0:
		fmt.Fprintf(w, "  through Dragoman: all but %s%s\n", strings.Join(missing, ", "), dialect)
	default:
		fmt.Fprintf(w, "  through Dragoman: all five%s\n", dialect)
	}
	if !c.all {
		return
	}
	for _, r := range v.Revisions {
		if r.Why != "" {
			_, _ = w.WriteString(wrap("✗ "+r.Revision.String()+": "+clean(r.Why), "    ", c.columns()))
		}
	}
}

// printWhy prints why clients cannot use the server. It prints nothing if f is nil.
func (c *doctorCommand) printWhy(w *bufio.Writer, f *failure.Failure) {
	if f == nil {
		return
	}
	_, _ = w.WriteString(wrap(clean(f.Sentence), "  ", c.columns()))
	const most = 5
	evidence := unsaid(f)
	for i, line := range evidence {
		if rest := len(evidence) - i; i == most && rest > 1 && !c.verbose {
			fmt.Fprintf(w, "      … %s more; -v prints all\n", quantity(rest, "line"))
			break
		}
		if c.screen {
			_, _ = w.WriteString(wrap(clean(line), "      ", c.columns()))
			continue
		}
		fmt.Fprintf(w, "      %s\n", clean(line))
	}
	if f.Action != "" {
		_, _ = w.WriteString(wrap("do: "+clean(f.Action), "  ", c.columns()))
	}
}

// printFindings prints the findings. They are already sorted, with the most harmful finding first.
// It prints findings of the level info only with --all.
func (c *doctorCommand) printFindings(w *bufio.Writer, findings []doctor.Finding) {
	for _, f := range findings {
		if f.Level != doctor.Info || c.all {
			_ = w.WriteByte('\n')
			c.printFinding(w, f)
		}
	}
}

// printFinding prints one finding. It prints the messages that prove the finding if its level is
// error or --verbose is set.
func (c *doctorCommand) printFinding(w *bufio.Writer, f doctor.Finding) {
	level := string(f.Level)
	if colour, ok := map[doctor.Level]string{doctor.Error: red, doctor.Warning: yellow}[f.Level]; ok {
		level = c.mark(level, colour)
	}
	fmt.Fprintf(w, "%s %s: %s\n", level, f.Code, f.Title)
	if f.Level == doctor.Error || c.verbose {
		for l := range strings.Lines(f.Evidence) {
			l = "    " + clean(strings.TrimRight(l, "\n"))
			if c.screen {
				l = fit(l, c.width)
			}
			fmt.Fprintln(w, l)
		}
	}
	if hurt := f.HurtsText(); hurt != "" {
		_, _ = w.WriteString(wrap("affects: "+hurt, "  ", c.columns()))
	}
	_, _ = w.WriteString(wrap(f.Meaning, "  ", c.columns()))
	if f.Fix != "" {
		_, _ = w.WriteString(wrap("fix: "+f.Fix, "  ", c.columns()))
	}
	_, _ = w.WriteString(wrap("what Dragoman does: "+f.Bridged, "  ", c.columns()))
}

// countOf returns the number of findings of each level as text.
func countOf(all []doctor.Finding) string {
	var out []string
	for _, l := range []doctor.Level{doctor.Error, doctor.Warning, doctor.Info} {
		if n := countLevel(all, l); n > 0 {
			out = append(out, quantity(n, string(l)))
		}
	}
	if len(out) == 0 {
		return "no findings"
	}
	return strings.Join(out, ", ")
}
