package fakeprovider

// Prices in nano-dollars a token.
type Prices struct {
	Fresh, Cached, CacheWrite, CacheWriteHour, Output int64
}

// Cost of u.
func (p Prices) Cost(u Usage) int64 {
	return int64(u.Fresh)*p.Fresh + int64(u.Cached)*p.Cached + int64(u.CacheWrite)*p.CacheWrite +
		int64(u.CacheWriteHour)*p.CacheWriteHour + int64(u.Output)*p.Output
}

// Line is one request on the bill: a request that the provider worked on.
type Line struct {
	ID    string // the provider's request id
	Model string
	Usage Usage
	// Complete says that the whole answer was sent. Of one that broke off the
	// prompt is charged and the tokens of the events that left.
	Complete bool
	Nano     int64
}

// Bill lists what the provider charges, in the order of the requests, and the
// sum. Requests that are still running are not on it.
func (s *Server) Bill() (lines []Line, nano int64) {
	for _, r := range s.Requests() {
		if l := r.line; l != nil {
			lines, nano = append(lines, *l), nano+l.Nano
		}
	}
	return lines, nano
}
