package config

import "strconv"

// Audit says what serve records of the requests of clients.
type Audit struct {
	Calls     AuditCalls
	OnFailure OnFailure
	FileSize  int // in bytes
	Files     int
}

// AuditCalls says what the audit has of a call. The zero value is AuditAuto.
type AuditCalls uint8

// The values of AuditCalls.
const (
	AuditAuto AuditCalls = iota // names, as soon as there are keys
	AuditOff
	AuditNames
	AuditArguments
)

// OnFailure says what happens to a call that the audit can't record. The zero value is FailAuto.
type OnFailure uint8

// The values of OnFailure.
const (
	FailAuto OnFailure = iota // refuse if the file says what is recorded, and continue otherwise
	FailRefuse
	FailContinue
)

var (
	auditCalls = []string{"off", "names", "arguments"}
	onFailures = []string{"refuse", "continue"}
)

// Refuses reports whether a call is refused that can't be recorded.
func (a *Audit) Refuses() bool {
	return a.OnFailure == FailRefuse || a.OnFailure == FailAuto && a.Calls != AuditAuto
}

// Least and most of a file of the audit, and of their number.
const (
	leastAuditFile, mostAuditFile   = 64 << 10, 1 << 30
	leastAuditFiles, mostAuditFiles = 2, 1000
)

// defaultAudit is what holds without a setting.
func defaultAudit() Audit { return Audit{FileSize: 32 << 20, Files: 8} }

// readAudit reads the settings of the audit, whose defaults a already has.
func (c *compiler) readAudit(o *object, a *Audit) {
	if o == nil {
		return
	}
	a.Calls = AuditCalls(1 + o.choice("calls", auditCalls, -1))
	a.OnFailure = OnFailure(1 + o.choice("onFailure", onFailures, -1))
	o.size("fileSize", &a.FileSize, leastAuditFile, mostAuditFile)
	o.count("files", &a.Files, leastAuditFiles, mostAuditFiles)
	if n := o.get("onFailure"); n != nil && a.Calls == AuditOff {
		c.warning(n, o.at("onFailure"), "has no effect, because calls aren't recorded", "remove it, or set "+o.at("calls")+" to names or arguments")
	}
	o.done()
}

// audit prints the settings of the audit.
func (p *printer) audit(a *Audit) {
	p.line(1, "audit:")
	if a.Calls == AuditAuto {
		p.line(2, "# calls: names if there are keys")
	} else {
		p.text(2, "calls", auditCalls[a.Calls-1])
	}
	if a.OnFailure == FailAuto {
		p.line(2, "# onFailure: "+choose(a.Refuses(), "refuse", "continue"))
	} else {
		p.text(2, "onFailure", onFailures[a.OnFailure-1])
	}
	p.text(2, "fileSize", bytesText(a.FileSize))
	p.line(2, "files: "+strconv.Itoa(a.Files))
}
