// Package screen lays out text for a terminal: it makes text safe to print, measures and cuts
// it by terminal cells, breaks it into lines, and formats tables.
//
// A cell is one column of a terminal. A wide character, such as a CJK character or an emoji,
// takes two cells. A combining mark takes no cell. The widths do not depend on the locale: a
// character of ambiguous width takes one cell.
//
// Safe and SafeLines escape all characters that control a terminal. Table calls Safe for each cell.
// The other functions do not escape, so the caller must escape text from a peer first.
//
// The package only returns text, keeps no state and is safe for concurrent use. Packages cli and
// matrix use it for text that people read.
package screen
