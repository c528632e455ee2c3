// Package pattern compiles regular expressions from peers, and calculates the maximum cost of a
// match.
//
// With package regexp, a match takes at most I × L steps. I is the number of instructions of the
// expression, and L is the length of the text. So every match ends. But a short expression such as
// (?:(?:x{100}){100}){100} has a million instructions. Compile estimates the number of instructions
// before it compiles an expression, and refuses an expression that has too many. Cost returns the
// maximum cost of a match before the match runs. So a caller can limit the total cost of its
// matches with a Budget.
//
// The syntax is that of package regexp (RE2). Patterns and budgets are safe for concurrent use.
package pattern
