// Package screen lays out text for a terminal: it makes text safe to print, measures and
// cuts it by terminal cells, breaks it into lines, and sets tables.
//
// A cell is one column of a terminal. A wide character, such as a CJK character or an
// emoji, takes two cells. A combining mark takes none. The widths do not depend on the
// locale: a character of ambiguous width takes one cell.
//
// Safe and SafeLines escape everything that a terminal would act on. Table applies Safe to
// each cell itself. The other functions measure their text as it is, so escape text of a
// peer before.
//
// The package writes nothing itself, keeps no state and is safe for concurrent use. The
// command line, doctor, matrix and admin use it for everything that people read.
package screen
