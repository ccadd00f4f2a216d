package appliance

import (
	"context"

	"hearth/web/admin"
)

var (
	opBudgetList = operation[tenantQuery, []budgetPosition]{
		name: "budget/list", place: "GET /budgets", access: admin.ReadTenant,
		summary: "every budget of tenants and keys in its present window: spent, held, and where the recent rate leads",
		run: func(ctx context.Context, c *control, q tenantQuery) ([]budgetPosition, error) {
			return c.budgets(ctx, q.Tenant)
		},
		tenant: func(q *tenantQuery) *string { return &q.Tenant },
	}
	opSpendReport = operation[spendQuery, spendReport]{
		name: "spend/report", place: "GET /spend", access: admin.ReadTenant,
		summary: "what requests cost, by tenant, key, model, route, upstream, day or hour",
		run:     reportSpend,
		tenant:  func(q *spendQuery) *string { return &q.Tenant },
	}
)
