package weights

// Metadata holds the key-values of a GGUF file.
type Metadata struct {
	keys   []string
	values map[string]value
}

type value struct{}

// Keys lists all keys in file order.
func (m *Metadata) Keys() []string { return m.keys }
