"""The choice of layouts, joint over all mesh axes: strategies, their cost, and the search."""
