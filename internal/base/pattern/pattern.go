package pattern

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"sync"
	"sync/atomic"
)

// These are the limits of expressions and matches.
const (
	// MaxBytes is the maximum length in bytes of an expression that Compile accepts.
	MaxBytes = 4 << 10
	// MaxSize is the maximum number of instructions of an expression that Compile accepts.
	MaxSize = 2000
	// UsualBudget is the number of steps that a check or a search may take. This number of steps
	// takes a few seconds.
	UsualBudget = 100_000_000
)

// Later returns a function that compiles an expression when it is first called, and returns the same
// result from then on. Expressions of our own are variables of this form: the program has so many that
// compiling them all at the start takes longer than most commands do. The function panics if the
// expression is invalid. It is safe for concurrent use.
func Later(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// ErrTooLarge is the error of Compile for an expression that is longer than MaxBytes or larger
// than MaxSize.
var ErrTooLarge = errors.New("the expression is too large: it is too long or repeats too much")

// Pattern is a compiled expression. Compile creates it.
type Pattern struct {
	re   *regexp.Regexp
	size int
}

// Compile compiles an expression. The error is ErrTooLarge, or an error of package regexp/syntax.
func Compile(expr string) (*Pattern, error) {
	if len(expr) > MaxBytes {
		return nil, ErrTooLarge
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := 2 + instructions(tree) // plus one instruction for failure and one for success
	if size > MaxSize {
		return nil, ErrTooLarge
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return &Pattern{re, size}, nil
}

// Regexp returns the compiled expression.
func (p *Pattern) Regexp() *regexp.Regexp { return p.re }

// Size returns an upper bound of the number of instructions of the expression. The bound is at most
// MaxSize.
func (p *Pattern) Size() int { return p.size }

// Cost returns the maximum number of steps of one match with a text of n bytes.
func (p *Pattern) Cost(n int) int64 { return int64(p.size) * (int64(n) + 1) }

// rangesPerStep is how many ranges of a character class count as one instruction. A class such as
// \pL has hundreds of ranges.
const rangesPerStep = 32

// instructions returns an upper bound of the number of instructions of an expression. It stops
// counting when the bound exceeds MaxSize. The recursion depth is bounded, because the parser
// limits the nesting of an expression.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = max(1, len(re.Rune))
	case syntax.OpCharClass:
		n += len(re.Rune) / 2 / rangesPerStep
	case syntax.OpCapture, syntax.OpStar:
		n = 2
	case syntax.OpAlternate:
		n = max(1, len(re.Sub)-1)
	case syntax.OpConcat, syntax.OpRepeat:
		n = 0
	}
	for _, sub := range re.Sub {
		n = min(n+instructions(sub), MaxSize+1)
	}
	if re.Op == syntax.OpRepeat {
		// The compiler makes Min copies of the repeated part. If there is no maximum, the last copy
		// becomes a loop. Otherwise, Max-Min optional copies follow.
		if re.Max < 0 {
			n = n*max(re.Min, 1) + 2
		} else {
			n = n*re.Min + (n+1)*(re.Max-re.Min) + 1
		}
		n = min(n, MaxSize+1)
	}
	return n
}

// Budget is a number of steps that several matches share. The zero value is empty. A Budget may
// be used concurrently.
type Budget struct{ left atomic.Int64 }

// Set sets the number of steps that are left.
func (b *Budget) Set(steps int64) { b.left.Store(steps) }

// Take takes the steps of one match from the budget. If too few steps are left, it takes no steps
// and returns false. Then the caller must not run the match.
func (b *Budget) Take(steps int64) bool {
	for {
		left := b.left.Load()
		if steps > left {
			return false
		}
		if b.left.CompareAndSwap(left, left-steps) {
			return true
		}
	}
}
