package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
)

// blocks remembers of which time the lines in each part of a file are, so that a page of the audit needn't read all that
// is newer or older than it. Lines are in the order in which requests have ended, and a request that took long is among
// later ones; that's why nobody can search a file for a time. It is safe for concurrent use.
type blocks struct {
	mu  sync.Mutex
	all map[string][]block // by the path of a file, in its order
}

// block is a part of a file that ends with a line break. least and most are the times of its oldest and newest line, as
// the lines have them.
type block struct {
	from, to    int64
	least, most []byte
	odd         bool // a line has no time, so the block is never passed over
}

// blockSize is the least size of a block in bytes.
const blockSize = 32 << 10

// of returns the blocks of a file of a size. It reads what was written since the last time; the newest lines are in no
// block yet.
func (x *blocks) of(ctx context.Context, path string, file io.ReaderAt, size int64) ([]block, error) {
	x.mu.Lock()
	known := x.all[path]
	x.mu.Unlock()
	var end int64
	if n := len(known); n > 0 {
		end = known[n-1].to
	}
	if end > size { // somebody has changed the file
		known, end = nil, 0
	}
	if size-end < blockSize {
		return known, nil
	}
	added, err := blocksIn(ctx, io.NewSectionReader(file, end, size-end), end)
	if err != nil || len(added) == 0 {
		return known, err
	}
	known = append(slices.Clip(known), added...)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all == nil {
		x.all = map[string][]block{}
	}
	x.all[path] = known
	return known, nil
}

// keep forgets all files but these.
func (x *blocks) keep(paths []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.all, func(path string, _ []block) bool { return !slices.Contains(paths, path) })
}

// blocksIn divides lines into blocks, the first of which is at a place in the file.
func blocksIn(ctx context.Context, lines io.Reader, at int64) (all []block, err error) {
	in := bufio.NewReaderSize(lines, 256<<10)
	now := block{from: at, to: at}
	for {
		line, err := in.ReadSlice('\n')
		now.to += int64(len(line))
		if errors.Is(err, bufio.ErrBufferFull) {
			now.odd = true // longer than any line of ours
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
		switch at := timeIn(line); {
		case at == nil:
			now.odd = true
		case now.least == nil:
			now.least, now.most = bytes.Clone(at), bytes.Clone(at)
		case bytes.Compare(at, now.least) < 0:
			copy(now.least, at)
		case bytes.Compare(at, now.most) > 0:
			copy(now.most, at)
		}
		if now.to-now.from >= blockSize {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			all, now = append(all, now), block{from: now.to, to: now.to}
		}
	}
}

// backwards calls do with the lines of a file that a query may need, the last one first, until do returns an error.
func (f *found) backwards(file *os.File, size int64, of []block, do func(line []byte) error) error {
	var end int64
	if n := len(of); n > 0 {
		end = of[n-1].to
	}
	if err := backwards(io.NewSectionReader(file, end, size-end), size-end, do); err != nil {
		return err
	}
	for _, b := range slices.Backward(of) {
		if !b.odd && f.passesBy(b.least, b.most) {
			continue
		}
		if err := backwards(io.NewSectionReader(file, b.from, b.to-b.from), b.to-b.from, do); err != nil {
			return err
		}
	}
	return nil
}
