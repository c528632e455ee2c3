package jsonrpc

// The functions in this file make messages without a scan, because they know the positions of the
// members. The parts that a caller passes must be valid JSON. A part that comes from a client or
// server was scanned when it arrived.

// NewRequest returns a request with the spans that Scan would find. If params is empty, the request
// has no params.
func NewRequest(id ID, method string, params []byte) *Message {
	m := &Message{Kind: Request, ID: id, Method: method}
	m.head(id, len(method)+len(params))
	m.method(method, params)
	return m
}

// NewNotification returns a notification; see NewRequest.
func NewNotification(method string, params []byte) *Message {
	m := &Message{Kind: Notification, Method: method}
	m.head("", len(method)+len(params))
	m.method(method, params)
	return m
}

// NewResult returns a result with the spans that Scan would find. result is a JSON value without
// surrounding white space. If result is empty, NewResult uses {}.
func NewResult(id ID, result []byte) *Message {
	m := &Message{Kind: Result, ID: id}
	m.head(id, len(result))
	m.Raw = append(m.Raw, `,"result":`...)
	m.Result.Start = len(m.Raw)
	if len(result) == 0 {
		result = []byte("{}")
	}
	m.Raw = append(m.Raw, result...)
	m.Result.End = len(m.Raw)
	m.Raw = append(m.Raw, '}')
	return m
}

// NewFailure returns an error answer for e; see AppendError.
func NewFailure(id ID, e *Error) *Message {
	m := &Message{Kind: Failure, ID: id}
	m.Raw = AppendError(make([]byte, 0, room+len(id)+len(e.Message)+len(e.Data)), id, e)
	m.idAt()
	m.Error = Span{m.afterID() + len(`,"error":`), len(m.Raw) - 1}
	return m
}

// room is enough space for the bytes of a message that surround its parts.
const room = 80

func (m *Message) head(id ID, rest int) {
	m.Raw = appendHead(make([]byte, 0, room+len(id)+rest), id)
	m.idAt()
}

// idAt sets IDAt to the position at which appendHead has written the id.
func (m *Message) idAt() {
	if m.ID != "" {
		start := len(`{"jsonrpc":"2.0","id":`)
		m.IDAt = Span{start, start + len(m.ID)}
	}
}

func (m *Message) afterID() int {
	if m.ID != "" {
		return m.IDAt.End
	}
	return len(`{"jsonrpc":"2.0"`)
}

func (m *Message) method(method string, params []byte) {
	m.Raw = appendMethod(m.Raw, method)
	if len(params) > 0 {
		start := len(m.Raw) + len(`,"params":`)
		m.Params = Span{start, start + len(params)}
	}
	m.Raw = appendParams(m.Raw, params)
}

// ObjectOf returns an object with f as its only member.
func ObjectOf(f Field) []byte {
	out := append(AppendQuote([]byte{'{'}, f.Key), ':')
	return append(append(out, f.Value...), '}')
}
