package store

import (
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const houseKind = "house"

// House returns a value of the whole house, or nil if there is none. The vault keeps here by what it
// knows its key.
func (s *Snapshot) House(name string) []byte { return s.house[name] }

// House returns a value as the transaction finds it, or nil if there is none.
func (t *Tx) House(name string) ([]byte, error) {
	all, err := allOfHouse(t.t)
	return all[name], err
}

// SetHouse sets a value, which may not be empty.
func (t *Tx) SetHouse(name string, value []byte) error {
	if len(value) == 0 {
		return errors.New("a value of the house is empty")
	}
	err := t.t.Exec("INSERT INTO house (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
	if err != nil {
		return err
	}
	return t.did("set", houseKind, name, about{})
}

func readHouse(t *sqldb.Tx, into *Snapshot) (err error) {
	into.house, err = allOfHouse(t)
	return err
}

func allOfHouse(t *sqldb.Tx) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := t.Each(func(scan func(...any) error) error {
		var name string
		var value []byte
		err := scan(&name, &value)
		all[name] = value
		return err
	}, "SELECT name, value FROM house")
	return all, err
}
