// Package matrix measures what works with what: every client revision with every
// server revision over every transport that each has, feature by feature, through
// Dragoman and, for comparison, without it.
//
// Both ends are the strict peers of package fake, which refuse and report whatever
// their revision does not have; Dragoman itself is the real program as a child
// process. A cell works when the feature did what it is for and neither end saw a
// violation. It is a loss only where a table says beforehand which revision or
// transport cannot express the feature (loss.go), never because something failed,
// and even then both ends have to stay calm. Everything else fails, with a reason.
//
// Run measures, Report prints. Cells are in a fixed order and carry no times, so
// that two runs of the same program can be compared byte by byte.
package matrix
