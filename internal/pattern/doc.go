// Package pattern compiles regular expressions of peers and counts what a match may cost.
//
// A match with package regexp takes a number of steps that is at most the instructions of the
// expression times the length of the text. So it always ends, but 40 bytes can have a million
// instructions, for example (?:(?:x{100}){100}){100}. Compile estimates the instructions before
// it builds them, and refuses an expression that has too many. The cost of one match can be
// asked for before the match, so a caller can bound the sum of all its matches with a Budget.
//
// The syntax is the one of package regexp (RE2). Patterns and budgets are safe for concurrent
// use.
package pattern
