-- Revenue by month and region, as a table, as a spreadsheet, and as the DataFrame of the next cell.
CREATE TABLE revenue AS
SELECT strftime(day, '%Y-%m') AS month, region, round(sum(quantity * price), 2) AS revenue
FROM 'orders.csv' WHERE quantity IS NOT NULL GROUP BY ALL ORDER BY ALL;
COPY revenue TO 'revenue.xlsx';
SELECT month, region, revenue FROM revenue ORDER BY revenue DESC LIMIT 5;
