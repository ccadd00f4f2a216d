package model

import "fmt"

// hfRope reads the rotary embedding. Older configurations have rope_theta and
// rope_scaling beside each other, newer ones all of it in rope_parameters, which
// for families with two kinds of layers holds one object each.
func hfRope(c *fields, h *hyper) {
	theta := c.number("rope_theta", 0)
	localTheta := c.number("rope_local_base_freq", 0)
	partial := c.number("partial_rotary_factor", 1)
	original := c.countOr("original_max_position_embeddings", 0)
	if c.flag("rope_interleaved", false) {
		c.note(fmt.Errorf("config.json: rope_interleaved is not supported"))
	}
	scaling, params := c.object("rope_scaling"), c.object("rope_parameters")
	if c.err != nil {
		return
	}
	full := params
	if h.desc.localRope {
		var sliding *fields
		if params != nil {
			full, sliding = params.object("full_attention"), params.object("sliding_attention")
			c.note(params.refuseAll())
		}
		local := hfRotary(c, h, sliding, localTheta, partial, original)
		h.local = &local
	}
	if scaling != nil {
		// Where both are given, transformers lets the older name win.
		full = scaling
	}
	h.rope = hfRotary(c, h, full, theta, partial, original)
}

// hfRotary reads one set of rope parameters; p may be nil.
func hfRotary(c *fields, h *hyper, p *fields, theta, partial float64, original int) rotary {
	r := rotary{base: theta, expanded: h.context}
	if p != nil {
		r.kind = p.text("type", "default")
		r.kind = p.text("rope_type", r.kind)
		r.base = p.number("rope_theta", theta)
		partial = p.number("partial_rotary_factor", partial)
		r.factor = p.number("factor", 0)
		r.attention = p.number("attention_factor", 0)
		r.original = p.countOr("original_max_position_embeddings", h.context)
		hfScaling(p, h, &r)
		p.note(p.refuseAll())
		c.note(p.err)
	}
	if original != 0 {
		// A family that states it outside means it (phi3).
		r.original = original
	}
	if !(partial > 0 && partial <= 1) {
		c.note(fmt.Errorf("config.json: partial_rotary_factor is %v, wanted above 0 and up to 1", partial))
		return r
	}
	r.dim = int(float64(h.headDim) * partial)
	if r.kind == "yarn" && r.factor == 0 && r.original > 0 {
		r.factor = float64(r.expanded) / float64(r.original)
	}
	return r
}

// hfScaling reads the parameters of the kind of scaling; those of other kinds
// stay unread and are refused.
func hfScaling(p *fields, h *hyper, r *rotary) {
	if h.desc.name == "phi3" && (r.kind == "su" || r.kind == "yarn") {
		r.kind = "longrope" // its names in early configurations
	}
	switch r.kind {
	case "default":
		r.kind = ""
	case "linear":
	case "llama3":
		r.lowFreq, r.highFreq = p.number("low_freq_factor", 0), p.number("high_freq_factor", 0)
	case "yarn":
		r.betaFast, r.betaSlow = p.number("beta_fast", 0), p.number("beta_slow", 0)
		r.mscale, r.mscaleAll = p.number("mscale", 0), p.number("mscale_all_dim", 0)
		r.exact = !p.flag("truncate", true)
	case "longrope":
		r.shortDiv, r.longDiv = p.floats("short_factor"), p.floats("long_factor")
	default:
		p.note(fmt.Errorf("config.json: rope type %q is not supported, wanted default, linear, llama3, yarn or longrope", r.kind))
	}
}
