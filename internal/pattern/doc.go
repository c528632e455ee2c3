// Package pattern compiles regular expressions of peers and counts what a match may cost.
//
// A match with package regexp takes a number of steps that is at most the number of instructions of
// the expression times the length of the text. So each match ends, but an expression of 40 bytes
// can have a million instructions, for example (?:(?:x{100}){100}){100}. Compile estimates the
// instructions before it builds them, and refuses an expression that has too many. Cost returns
// what one match may cost before it runs, so a caller can bound the cost of all its matches with a
// Budget.
//
// The syntax is the one of package regexp (RE2). Patterns and budgets are safe for concurrent
// use.
package pattern
