// Package matrix measures which clients work with which servers: every client revision with
// every server revision, over every transport that each defines, feature by feature. It
// measures through Dragoman and, for comparison, without it.
//
// Both ends are the strict peers of package fake, which refuse and report everything that
// their revision does not have. Dragoman is the real program, as a child process. A cell
// works if the feature did what it should and neither end saw a violation. It is a loss
// only if loss.go says in advance which revision or transport cannot express the feature,
// and neither end sees a violation. Everything else fails, with a reason.
//
// Run measures and Report prints. Cells have a fixed order and contain no times, so two runs
// of the same program can be compared byte by byte.
package matrix
