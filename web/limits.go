package web

// Limits bound everything that a peer can make the server hold.
type Limits struct {
	BodyBytes int64
}

// DefaultLimits returns the limits in force where none is configured.
func DefaultLimits() Limits { return Limits{BodyBytes: 20 << 20} }
